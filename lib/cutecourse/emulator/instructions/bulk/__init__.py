"""Bulk and tensor copies: what the Tensor Memory Accelerator does."""
