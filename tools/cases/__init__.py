"""What a GPU can record: PTX cases of the emulator and TMA loads, their values, their runs, the recordings.

Tools, benchmarks and tests import it.
"""
