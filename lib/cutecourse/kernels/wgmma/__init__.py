"""Kernels of one warpgroup around `wgmma`."""
