"""Public kernels as a standing test: compile them from the packages that their authors publish, run them on the
emulator, and compare the results with a reference in float64.

`python -m benchmarks.corpus --folder DIR` runs all of them. DIR has the packages; a package that is missing is
installed there. Nothing of a package is kept here: an entry names a kernel, declares its arguments and states
the result.
"""
