"""Measure the clock and the energy of the first GPU with NVML while a kernel runs on it."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

__all__ = ["Meter", "Reading", "sustain"]

_SAMPLE_S = 0.005
_AHEAD = 2
_FEWEST_STEPS = 3


@dataclass(frozen=True)
class Reading:
    """One measurement: seconds for each launch, median clock, mean power, and seconds on the GPU."""

    seconds: float
    clock_mhz: float
    watts: float
    lasted_s: float


@dataclass
class Meter:
    """A thread that samples the SM clock and notes each change of the GPU's energy counter."""

    clocks: list[float] = field(default_factory=list)
    joules: list[tuple[float, float]] = field(default_factory=list)

    @property
    def watts(self) -> float:
        """The slope of energy over time, fitted to all observed steps of the counter."""
        if len(self.joules) < _FEWEST_STEPS:
            return float("nan")
        return statistics.linear_regression(*zip(*self.joules, strict=True)).slope

    def __enter__(self) -> Self:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        import pynvml

        pynvml.nvmlInit()
        gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
        last = pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu)
        while not self._over.wait(_SAMPLE_S):
            now = pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu)
            if now != last:
                self.joules.append((time.monotonic(), now / 1e3))
                last = now
            self.clocks.append(float(pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM)))


def sustain(launch: Callable[[], object], launches: int, settle_s: float, seconds: float) -> Reading:
    """Call `launch`, which starts `launches` kernels, again and again: to settle first, then to measure."""
    import torch

    def busy(span: float) -> tuple[int, float]:
        """Keep the GPU busy for `span` seconds; return the number of calls, and their seconds on the GPU."""
        first, ends = torch.cuda.Event(enable_timing=True), []
        first.record()
        begun = time.monotonic()
        while time.monotonic() - begun < span:
            launch()
            ends.append(torch.cuda.Event(enable_timing=True))
            ends[-1].record()
            if len(ends) > _AHEAD:  # a short queue keeps the GPU in step with the host's clock
                ends[-1 - _AHEAD].synchronize()
        ends[-1].synchronize()
        return len(ends), first.elapsed_time(ends[-1]) / 1e3

    busy(settle_s)
    with Meter() as meter:
        calls, spent = busy(seconds)
    clock = statistics.median(meter.clocks) if meter.clocks else float("nan")
    return Reading(spent / (calls * launches), clock, meter.watts, spent)
