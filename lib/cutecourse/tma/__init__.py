"""What CuTe does with a tensor, a shared-memory layout and a tiler to make a TMA descriptor, step by step."""
