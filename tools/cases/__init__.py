"""Cases that a GPU can record: PTX of the emulator and TMA loads, their values, runs and recordings.

Tools, benchmarks and tests import it.
"""
