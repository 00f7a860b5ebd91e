"""The kernels as a CuTe DSL or numba-cuda programmer writes them; each module imports its compiler.

A launch specification names the functions of these files and reads their text. Only a compile imports them.
"""
