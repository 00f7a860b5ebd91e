"""Kernels that write down where a layout puts an index, and the smallest kernel."""
