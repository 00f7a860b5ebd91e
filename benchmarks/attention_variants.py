"""Variants of attention for Hopper, each with the TFLOP/s that were predicted before the recorded run.

`attention_variant_kernel.py` is the kernel; a variant is its options. `benchmarks/attention.py` measures
them, at one length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cutecourse.kernels.files import KernelFile
from cutecourse.kernels.spec import LaunchSpec, Tensor, TensorMapSpec
from cutecourse.layout import parse

FILE = KernelFile(
    "attention_variant", Path(__file__).with_name("attention_variant_kernel.py").read_text(encoding="utf-8")
)
DEPTH = 128


class VariantChoice(NamedTuple):
    """The options of the kernel's file, which calls them `How`."""

    causal: bool = False
    keys: int = 128
    stages: int = 4
    consumers: int = 2
    cluster: int = 1
    overlap: bool = True
    turns: bool = True
    lazy: int = 2
    group: int = 0
    ctas: int = 132
    partial: int = 4
    snake: bool = False
    anchor: bool = True
    dynamic: bool = True
    pin: bool = True
    polynomial: int = 0


@dataclass(frozen=True)
class Trial:
    """A variant: its name in a result, its options, and the prediction, in TFLOP/s."""

    name: str
    how: VariantChoice
    predicted: float

    def spec(self, shape: tuple[int, int, int]) -> LaunchSpec:
        """The launch for (length, heads, batches)."""
        length, heads, batches = shape
        how, rows = self.how, int(FILE.constant("ROWS"))
        strides = (heads * DEPTH, 1, DEPTH, length * heads * DEPTH)

        def operand(name: str, tall: int, receivers: int = 1) -> TensorMapSpec:
            return TensorMapSpec(
                name,
                "bf16",
                (length, DEPTH, heads, batches),
                strides,
                smem_layout=parse(f"S<3,4,3> o 0 o ({tall},(64,2)):(64,(1,{64 * tall}))"),
                cta_tiler=(tall, DEPTH),
                num_multicast=receivers,
            )

        tall = rows * how.consumers * how.cluster
        count = -(-length // tall) * heads * batches * how.cluster
        ctas = min(how.ctas // how.cluster * how.cluster, count) if how.ctas else count
        loaded = how.stages * (how.keys * DEPTH * 2 + 16)
        return LaunchSpec(
            name="attention_variant",
            language="cutedsl",
            kernel=FILE.function("attention_variant"),
            host=FILE.function("host_for").given(*how),
            grid=(ctas, 1, 1),
            block=(128 * (1 + how.consumers), 1, 1),
            cluster=(how.cluster, 1, 1),
            dynamic_smem=loaded + how.consumers * (2 * rows * DEPTH * 2 + 16) + 40,
            params=(
                operand("q", rows),
                operand("k", how.keys, how.cluster),
                operand("v", how.keys, how.cluster),
                operand("o", rows),
                Tensor("counter", "s32", (1,), (1,)),
            ),
            target="sm_90a",
        )


def trial(name: str, predicted: float, options: Mapping[str, Any]) -> Trial:
    """A variant by the options that differ."""
    return Trial(name, VariantChoice(**options), predicted)


TRIALS = (
    trial("no overlap", 580, {"overlap": False}),
    trial("no turns", 650, {"turns": False}),
    trial("wait moved up", 600, {"anchor": False, "pin": False}),
    trial("sums after the wait", 620, {"pin": False}),
    trial("rescales always", 660, {"lazy": 0}),
    trial("rescales if it grew", 665, {"lazy": 1}),
    trial("a CTA for each tile", 640, {"ctas": 0, "dynamic": False}),
    trial("fixed order", 660, {"dynamic": False}),
    trial("pairs share K and V", 670, {"dynamic": False, "cluster": 2}),
    trial("128 keys", 680, {}),
    trial("160 keys", 690, {"keys": 160}),
    trial("three consumers", 690, {"consumers": 3, "overlap": False}),
    trial("five stages", 680, {"stages": 5}),
    trial("144 keys", 660, {"keys": 144}),
    trial("96 keys", 630, {"keys": 96, "stages": 6}),
    trial("176 keys, three stages", 640, {"keys": 176, "stages": 3}),
    trial("160 keys, three stages", 650, {"keys": 160, "stages": 3}),
    trial("160 keys, two sums and maxima", 655, {"keys": 160, "partial": 2}),
    trial("160 keys, eight sums and maxima", 660, {"keys": 160, "partial": 8}),
    trial("160 keys, no turns", 655, {"keys": 160, "turns": False}),
    trial("160 keys, order back and forth", 645, {"keys": 160, "dynamic": False, "snake": True}),
    trial("a power in 8 by a polynomial", 645, {"polynomial": 8}),
    trial("a power in 4 by a polynomial", 625, {"polynomial": 4}),
    trial("causal, head after head", 570, {"causal": True}),
    trial("causal, 4 heads together", 600, {"causal": True, "group": 4}),
    trial("causal, 64 heads together", 600, {"causal": True, "group": 64}),
    trial("causal, a CTA for each tile", 590, {"causal": True, "group": 16, "ctas": 0, "dynamic": False}),
    trial("causal, three consumers", 590, {"causal": True, "group": 16, "consumers": 3, "overlap": False}),
    trial("causal, 8 heads together", 610, {"causal": True, "group": 8}),
    trial("causal, 160 keys", 600, {"causal": True, "group": 16, "keys": 160}),
    trial("causal, no turns", 610, {"causal": True, "group": 16, "turns": False}),
    trial("causal, rescales always", 590, {"causal": True, "group": 16, "lazy": 0}),
    trial("causal, a power in 8 by a polynomial", 600, {"causal": True, "group": 16, "polynomial": 8}),
    trial("causal, 64 keys", 560, {"causal": True, "group": 16, "keys": 64, "stages": 8}),
)
"""The predictions were written down before each variant was measured for the first time."""
