"""Kernels as machine code on the GPU, launched on PyTorch's memory: what the benchmarks of GEMMs share."""

from __future__ import annotations

import ctypes
import random
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cutecourse import runtime
from cutecourse.kernels.spec import LaunchSpec, Tensor, TensorMapSpec
from cutecourse.runtime.gpu import launch_attributes, parameter_block

__all__ = ["Built", "Loaded", "alternating", "assembled", "compiled", "parameters"]

_PORTABLE_CLUSTER_CTAS = 8


@dataclass(frozen=True)
class Built:
    """A kernel's machine code, how it is launched, and what ptxas said about it.

    serialized    ptxas put waits between the wgmma instructions, because it could not keep them apart.
    programmatic  it may start before the kernel ahead of it has ended, as in `LaunchSpec`.
    """

    cubin: bytes
    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_smem: int
    registers: int
    spill_bytes: int
    cluster: tuple[int, int, int] = (1, 1, 1)
    serialized: bool = False
    programmatic: bool = False


def assembled(ptx: str, spec: LaunchSpec, entry: str, arch: str) -> Built:
    """Assemble a text with ptxas, which also says how many registers it took."""
    ptxas = shutil.which("ptxas")
    if ptxas is None:
        raise runtime.GpuError("ptxas is not on the PATH.")
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder, "k.ptx"), Path(folder, "k.cubin")
        source.write_text(ptx)
        command = [ptxas, "-v", f"-arch={arch}", "-o", str(cubin), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise runtime.GpuError(f"{spec.name}: ptxas refuses it:\n{done.stderr[-2000:]}")
        registers = re.search(r"Used (\d+) registers", done.stderr)
        spills = re.findall(r"(\d+) bytes spill", done.stderr)
        assert registers is not None
        return Built(
            cubin.read_bytes(),
            entry,
            spec.grid,
            spec.block,
            spec.dynamic_smem,
            int(registers[1]),
            sum(map(int, spills)),
            spec.cluster,
            bool(re.search("wgmma.*serialized", done.stderr)),
            spec.programmatic,
        )


def compiled(spec: LaunchSpec, arch: str) -> Built:
    """Compile a specification's kernel and assemble it."""
    text = runtime.compile(spec)
    return assembled(str(text.ptx), spec, text.entry, arch)


def parameters(
    spec: LaunchSpec, addresses: Mapping[str, int], numbers: Mapping[str, np.generic] | None = None
) -> list[int | np.generic | bytes]:
    """The values of a launch, in the parameters' order: pointers, tensor maps of them, and numbers."""
    values: list[int | np.generic | bytes] = []
    for param in spec.params:
        if isinstance(param, TensorMapSpec):
            values.append(runtime.driver_tensor_map(param.encoding, addresses[param.argument]))
        elif isinstance(param, Tensor):
            values.append(addresses[param.argument])
        else:
            values.append((numbers or {})[param.name])
    return values


class Loaded:
    """A kernel on the GPU, launched on PyTorch's current stream, so that a CUDA graph can record it."""

    def __init__(self, built: Built) -> None:
        from cuda.bindings import driver

        self._driver, self.built = driver, built
        self._module = self._call(driver.cuModuleLoadData(built.cubin))
        self._function = self._call(driver.cuModuleGetFunction(self._module, built.entry.encode()))
        attribute = driver.CUfunction_attribute
        shared = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._call(driver.cuFuncSetAttribute(self._function, shared, built.dynamic_smem))
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = built.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = built.block
        config.sharedMemBytes = built.dynamic_smem
        if np.prod(built.cluster) > _PORTABLE_CLUSTER_CTAS:
            allowed = attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            self._call(driver.cuFuncSetAttribute(self._function, allowed, 1))
        attributes = launch_attributes(driver, built.cluster, built.programmatic)
        config.attrs, config.numAttrs = attributes, len(attributes)
        self._config = config

    def _call(self, answer: tuple[Any, ...]) -> Any:
        status, *values = answer
        if status != self._driver.CUresult.CUDA_SUCCESS:
            raise runtime.GpuError(f"{self.built.entry}: {status.name}")
        return values[0] if values else None

    def launch(self, *values: int | np.generic | bytes) -> None:
        """Launch it; an int is an address, bytes are a tensor map."""
        import torch

        pointers, cells = parameter_block(values)
        self._config.hStream = self._driver.CUstream(torch.cuda.current_stream().cuda_stream)
        self._call(self._driver.cuLaunchKernelEx(self._config, self._function, ctypes.addressof(pointers), 0))
        del cells


def alternating(cases: Mapping[Any, Callable[[], object]], rounds: int) -> dict[Any, list[float]]:
    """Seconds of each case in each round. The cases take turns, in each round in an order of its own."""
    import torch

    seconds: dict[Any, list[float]] = {key: [] for key in cases}
    for turn in range(rounds + 1):
        events = {}
        order = list(cases)
        random.Random(turn).shuffle(order)  # the power that one case draws is felt by the next
        for key in order:
            before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            before.record()
            cases[key]()
            after.record()
            events[key] = before, after
        torch.cuda.synchronize()
        if turn:  # the first round wakes the clocks
            for key, (before, after) in events.items():
                seconds[key].append(before.elapsed_time(after) / 1e3)
    return seconds
