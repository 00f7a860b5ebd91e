"""Kernels for Blackwell: tcgen05, tensor memory, pairs of SMs."""
