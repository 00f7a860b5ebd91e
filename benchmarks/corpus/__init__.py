"""Public kernels as a standing test.

Their authors publish them in packages. They are compiled from there, run on the emulator, and their results
are compared with references in float64. `python -m benchmarks.corpus --folder DIR` runs all of them. DIR has
the packages; one that is missing is installed there. Nothing of a package is kept here: an entry names a
kernel, declares its arguments and states the result.
"""
