"""Rules for correct kernels, checked while they run: races, order, operands, provenance."""
