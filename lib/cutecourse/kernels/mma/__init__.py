"""Kernels of one warp around `mma.sync`: fragments, ldmatrix, stmatrix, and small products."""
