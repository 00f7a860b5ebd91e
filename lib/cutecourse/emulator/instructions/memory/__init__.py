"""Memory instructions of single threads: loads, stores, atomics and cp.async."""
