"""GEMMs of 8-bit floats on Hopper: a drifting sum, its promotion, and scales of blocks."""
