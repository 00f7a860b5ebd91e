"""Instructions with which threads read and write memory by themselves."""
