"""One call that runs a kernel on a GPU that can, else on the emulator, and says which of the two it was."""

from cutecourse.runtime.arguments import Bound, bind, emulator_arguments
from cutecourse.runtime.assembly import Assembly, AssemblyReport, assembly_report, find_ptxas
from cutecourse.runtime.compiled import Compiled, PtxText
from cutecourse.runtime.compiling import compile, specification  # noqa: A004 - the runtime's own verb
from cutecourse.runtime.discovery import DEVICE_VARIABLE, Device, Discovery, choose, devices, discover
from cutecourse.runtime.errors import ArgumentError, CompileError, DeviceError, GpuError, NoCompilerError
from cutecourse.runtime.gpu import GpuKernel
from cutecourse.runtime.record import Launch, RunRecord
from cutecourse.runtime.running import Run, history, launch_of, run
from cutecourse.runtime.tensor_map import MappedArray, driver_tensor_map, emulator_tensor_map

__all__ = [
    "DEVICE_VARIABLE",
    "ArgumentError",
    "Assembly",
    "AssemblyReport",
    "Bound",
    "CompileError",
    "Compiled",
    "Device",
    "DeviceError",
    "Discovery",
    "GpuError",
    "GpuKernel",
    "Launch",
    "MappedArray",
    "NoCompilerError",
    "PtxText",
    "Run",
    "RunRecord",
    "assembly_report",
    "bind",
    "choose",
    "compile",
    "devices",
    "discover",
    "driver_tensor_map",
    "emulator_arguments",
    "emulator_tensor_map",
    "find_ptxas",
    "history",
    "launch_of",
    "run",
    "specification",
]
