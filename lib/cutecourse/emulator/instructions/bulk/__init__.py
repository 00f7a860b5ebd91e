"""Bulk and tensor copies, which the Tensor Memory Accelerator executes."""
