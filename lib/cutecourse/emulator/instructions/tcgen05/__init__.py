"""The fifth generation of tensor cores and their tensor memory (sm_100a)."""
