"""The meaning of each instruction, one folder for each family."""
