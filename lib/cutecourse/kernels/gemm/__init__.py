"""The ladder of GEMMs with `mma.sync`, for compute capability 8.0 and later."""
