"""Layouts in the CuTe DSL (`source.py`) and in C++ (`layouts.cu`): programs that print and launch nothing."""
