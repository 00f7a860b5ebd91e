"""CuTe Course's library: layout algebra, atoms, a PTX emulator, kernels, widgets and checks."""

__version__ = "0.1.0"
