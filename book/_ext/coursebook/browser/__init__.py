"""The code that runs in the reader's browser: the runner, its worker, and the kernel in Python."""
