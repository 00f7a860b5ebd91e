"""Reads a PTX text without running it: its declarations, its sites, and how to launch its kernels.

`explain` describes a kernel as plain data, and `report` as text. `parameters` says how a text uses a kernel's
parameters. `cutecourse.analysis.arguments` makes arguments from words such as `in:a.npy`.
"""

from cutecourse.analysis.errors import InputError
from cutecourse.analysis.explain import explain, report
from cutecourse.analysis.parameters import Parameter, find_entry, parameters

__all__ = ["InputError", "Parameter", "explain", "find_entry", "parameters", "report"]
