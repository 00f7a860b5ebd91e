"""Measure how fast wgmma is by itself: for every N, with A in shared memory or in registers.

    python -m benchmarks.wgmma_rate             writes benchmarks/results/wgmma_rate_<gpu>.json
    python -m benchmarks.wgmma_rate --output F  writes F

A kernel fills the GPU with one CTA on each SM, of one or two warpgroups. Random operands are put into shared
memory once, and a loop multiplies them over and over: four k-tiles of 64, as a GEMM with four stages would.
Nothing is loaded or stored in the loop. After sixteen turns the accumulators start again from zero, so their
values stay those of a product with K = 4096. One launch is compared with NumPy's product.

The loop reads the SM's clock and the nanosecond timer before and after. The first says how many
multiply-adds an SM does in a cycle; both together say how fast the clock was. A few shapes also run long
enough for the power limit to act, and NVML's energy counter says what the GPU draws.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.launching import Built, Loaded, assembled
from benchmarks.power import sustain
from benchmarks.results_file import result_path
from cutecourse import runtime
from cutecourse.kernels.spec import LaunchSpec, Scalar, Tensor
from tools.facts import of_this_machine

__all__ = ["PEAK", "Loop", "ceiling", "expected", "numbers", "rate_spec"]

Array = np.ndarray[Any, np.dtype[Any]]

PEAK = 2048
"""f16 multiply-adds of a Hopper SM in a cycle. At 1830 MHz, 132 SMs then reach NVIDIA's 989.4 TFLOP/s."""
K_TILES = 4
K_TILE_ELEMS = 64
STEPS = K_TILES * K_TILE_ELEMS // 16
"""wgmma instructions of a warpgroup in a turn of the loop."""
TURNS_OF_A_SUM = 16
FMAS = 1 << 31
"""Multiply-adds of each SM in a short launch: a million cycles at the peak."""
REPEATS = 3
LONG = 16
"""A launch takes this many times longer when the power is measured."""
SETTLE_S, SUSTAINED_S = 0.4, 1.2

_TEXT = """
.version 8.0
.target sm_90a
.address_size 64

.extern .shared .align 1024 .b8 smem[];

.visible .entry wgmma_rate(
    .param .u64 image, .param .u64 fragments, .param .u64 c, .param .u64 times, .param .u32 turns)
{{
    .reg .pred %more, %sum, %one, %first;
    .reg .b32 %mine, %thread, %group, %at, %smem, %turn, %turns, %w<4>;
    .reg .b64 %base, %offset, %a0, %b0, %a, %b, %t0, %t1, %g0, %g1;
    .reg .b32 %f<{fragment_registers}>;
    .reg .f32 %c<{c_registers}>;

    mov.u32       %mine, %tid.x;
    shr.u32       %group, %mine, 7;
    mov.u32       %thread, %ctaid.x;
    mad.lo.u32    %thread, %thread, {threads}, %mine;
    mov.u32       %smem, smem;

    ld.param.u64  %base, [image];
    shl.b32       %at, %mine, 4;
    cvt.u64.u32   %offset, %at;
    add.u64       %base, %base, %offset;
    add.u32       %smem, %smem, %at;
fill:
    ld.global.v4.b32 {{%w0, %w1, %w2, %w3}}, [%base];
    st.shared.v4.b32 [%smem], {{%w0, %w1, %w2, %w3}};
    add.u64       %base, %base, {stride};
    add.u32       %smem, %smem, {stride};
    add.u32       %at, %at, {stride};
    setp.lt.u32   %more, %at, {image_bytes};
@%more bra fill;
{load_fragments}
    // Descriptors: address / 16, 1024 bytes between groups of 8 rows, 128-byte swizzle.
    mov.u32       %smem, smem;
    add.u32       %w0, %smem, {a_bytes};
    shr.u32       %w0, %w0, 4;
    cvt.u64.u32   %b0, %w0;
    or.b64        %b0, %b0, 0x4000004000000000;
    shr.u32       %w0, %smem, 4;
    mad.lo.u32    %w0, %group, 512, %w0;
    cvt.u64.u32   %a0, %w0;
    or.b64        %a0, %a0, 0x4000004000000000;
{clear}
    ld.param.u32  %turns, [turns];
    mov.u32       %turn, 0;
    setp.eq.u32   %one, %turn, 0;
    fence.proxy.async;
    bar.sync      0;
    mov.u64       %t0, %clock64;
    mov.u64       %g0, %globaltimer;
again:
    and.b32       %w0, %turn, {mask};
    setp.ne.u32   %sum, %w0, 0;
    wgmma.fence.sync.aligned;
{multiply}
    add.u32       %turn, %turn, 1;
    setp.lt.u32   %more, %turn, %turns;
@%more bra again;
    wgmma.wait_group.sync.aligned 0;
    mov.u64       %t1, %clock64;
    mov.u64       %g1, %globaltimer;
    sub.u64       %t1, %t1, %t0;
    sub.u64       %g1, %g1, %g0;

    and.b32       %w0, %mine, 127;
    setp.eq.u32   %first, %w0, 0;
    shr.u32       %w1, %thread, 7;
    ld.param.u64  %base, [times];
    mul.wide.u32  %offset, %w1, 16;
    add.u64       %base, %base, %offset;
@%first st.global.v2.u64 [%base], {{%t1, %g1}};
    ld.param.u64  %base, [c];
    mul.wide.u32  %offset, %thread, {c_bytes};
    add.u64       %base, %base, %offset;
{store_c}
    ret;
}}
"""


@dataclass(frozen=True)
class Loop:
    """One loop: N, the warpgroups of a CTA, where A is, and whether the numbers are random or all equal."""

    n: int
    warpgroups: int = 2
    a: str = "shared memory"
    numbers: str = "random"

    def flops(self, turns: int, blocks: int) -> int:
        """Multiplications and additions of a launch."""
        return 2 * 64 * self.n * 16 * STEPS * turns * self.warpgroups * blocks

    def turns(self, fmas: int = FMAS) -> int:
        """The number of turns in which an SM does about `fmas` multiply-adds."""
        return max(TURNS_OF_A_SUM, fmas // (64 * self.n * 16 * STEPS * self.warpgroups))


SHORT = tuple(
    Loop(n, warpgroups, a)
    for a in ("shared memory", "registers")
    for warpgroups in (1, 2)
    for n in range(8, 257, 8)
)
SUSTAINED = (
    Loop(256),
    Loop(256, a="registers"),
    Loop(256, warpgroups=1),
    Loop(192),
    Loop(128),
    Loop(64),
    Loop(256, numbers="equal"),
)


def rate_spec(blocks: int, loop: Loop) -> LaunchSpec:
    """The launch of one loop.

    Parameters: image, the contents of shared memory: A (k-tile, warpgroup, 64, 64) if it is not in registers,
    then B (k-tile, N, 64), f16, in rows of 128 bytes with the 128-byte swizzle; fragments, the A of each
    thread; c, the accumulators of each thread; times, cycles and nanoseconds of each warpgroup; turns.
    """
    from_smem = loop.a == "shared memory"
    a_bytes = K_TILES * loop.warpgroups * 64 * 128 if from_smem else 0
    image_bytes = a_bytes + K_TILES * loop.n * 128
    threads, c_registers, fragment_registers = 128 * loop.warpgroups, loop.n // 2, 4 * STEPS
    accumulators = ", ".join(f"%c{one}" for one in range(c_registers))
    multiply = []
    for step in range(STEPS):
        k_tile, within = divmod(step, K_TILE_ELEMS // 16)
        multiply.append(f"    add.u64       %b, %b0, {k_tile * loop.n * 8 + 2 * within};")
        a = "%a"
        if from_smem:
            multiply.append(f"    add.u64       %a, %a0, {k_tile * loop.warpgroups * 512 + 2 * within};")
        else:
            a = "{" + ", ".join(f"%f{4 * step + one}" for one in range(4)) + "}"
        multiply.append(
            f"    wgmma.mma_async.sync.aligned.m64n{loop.n}k16.f32.f16.f16 {{{accumulators}}}, {a}, %b, "
            f"{'%one' if step else '%sum'}, 1, 1, {'0, 0' if from_smem else '0'};"
        )
        if within == K_TILE_ELEMS // 16 - 1:
            multiply += ["    wgmma.commit_group.sync.aligned;", "    wgmma.wait_group.sync.aligned 1;"]
    load = [
        "    ld.param.u64  %base, [fragments];",
        f"    mul.wide.u32  %offset, %mine, {4 * fragment_registers};",
        "    add.u64       %base, %base, %offset;",
        *(f"    ld.global.b32 %f{i}, [%base+{4 * i}];" for i in range(fragment_registers)),
    ]
    text = _TEXT.format(
        fragment_registers=fragment_registers,
        c_registers=c_registers,
        threads=threads,
        stride=16 * threads,
        image_bytes=image_bytes,
        a_bytes=a_bytes,
        mask=TURNS_OF_A_SUM - 1,
        c_bytes=4 * c_registers,
        load_fragments="" if from_smem else "\n".join(load),
        clear="\n".join(f"    mov.f32       %c{i}, 0f00000000;" for i in range(c_registers)),
        multiply="\n".join(multiply),
        store_c="\n".join(f"    st.global.f32 [%base+{4 * i}], %c{i};" for i in range(c_registers)),
    )
    padded = -(-image_bytes // (16 * threads)) * 16 * threads
    return LaunchSpec(
        name="wgmma_rate",
        language="ptx",
        ptx=text.lstrip(),
        entry="wgmma_rate",
        grid=(blocks, 1, 1),
        block=(threads, 1, 1),
        dynamic_smem=padded,
        params=(
            Tensor("image", "f16", (padded // 2,)),
            Tensor("fragments", "f16", (1 if from_smem else threads, 2 * fragment_registers)),
            Tensor("c", "f32", (blocks * threads, c_registers)),
            Tensor("times", "u64", (blocks * loop.warpgroups, 2)),
            Scalar("turns", "u32"),
        ),
        target="sm_90a",
    )


def numbers(spec: LaunchSpec, kind: str = "random") -> tuple[Array, Array]:
    """The contents of shared memory and of the fragments: normally distributed numbers, or ones."""
    random = np.random.default_rng(0)
    shapes = [tensor.extents for tensor in spec.tensors[:2]]
    if kind == "equal":
        return np.ones(shapes[0], np.float16), np.ones(shapes[1], np.float16)
    image, fragments = (random.standard_normal(shape, np.float32).astype(np.float16) for shape in shapes)
    return image, fragments


def expected(loop: Loop, image: Array, fragments: Array, turns: int) -> Array:
    """The accumulators of each warpgroup, (warpgroup, 64, N), after `turns` turns."""
    a_elems = K_TILES * loop.warpgroups * 64 * 64 if loop.a == "shared memory" else 0
    b = _unswizzled(image[a_elems : a_elems + K_TILES * loop.n * 64]).reshape(K_TILES, loop.n, 64)
    if a_elems:
        a = _unswizzled(image[:a_elems]).reshape(K_TILES, loop.warpgroups, 64, 64)
    else:
        # PTX ISA, the fragment of A for wgmma.m64k16: registers 0 to 3 are (row, row + 8) by (k, k + 8).
        given = fragments.reshape(
            loop.warpgroups, 4, 8, 4, STEPS, 2, 2, 2
        )  # w, warp, row, pair, step, k8, r8, k
        a = given.transpose(4, 0, 1, 6, 2, 5, 3, 7).reshape(K_TILES, 4, loop.warpgroups, 64, 16)
        a = a.transpose(0, 2, 3, 1, 4).reshape(K_TILES, loop.warpgroups, 64, 64)
    product = np.einsum("twmk,tnk->wmn", a.astype(np.float64), b.astype(np.float64))
    return product * ((turns - 1) % TURNS_OF_A_SUM + 1)


def accumulators(loop: Loop, c: Array) -> Array:
    """The threads' accumulators of the first CTA as (warpgroup, 64, N)."""
    given = c[: 128 * loop.warpgroups].reshape(loop.warpgroups, 4, 8, 4, loop.n // 8, 2, 2)
    return given.transpose(0, 1, 5, 2, 4, 3, 6).reshape(loop.warpgroups, 64, loop.n)


def _unswizzled(elements: Array) -> Array:
    """Undo the 128-byte swizzle in rows of 64 elements: put their 16-byte units back in order."""
    rows = elements.reshape(-1, 8, 8)
    row = np.arange(len(rows))[:, None]
    return np.ascontiguousarray(rows[row, np.arange(8) ^ row % 8])


class Runner:
    """A loop on the GPU: its buffers and its launches."""

    def __init__(self, loop: Loop, built: Built, blocks: int) -> None:
        import torch

        self.loop, self.kernel, self.blocks, self._spec = loop, Loaded(built), blocks, rate_spec(blocks, loop)
        self._image, self._fragments = numbers(self._spec, loop.numbers)
        c, times = (tensor.extents for tensor in self._spec.tensors[2:])
        self._held = [torch.from_numpy(one).cuda() for one in (self._image, self._fragments)]
        self._held += [torch.zeros(c, device="cuda"), torch.zeros(times, dtype=torch.int64, device="cuda")]

    def launch(self, turns: int) -> None:
        """Launch the loop once."""
        self.kernel.launch(*(one.data_ptr() for one in self._held), np.uint32(turns))

    def check(self) -> None:
        """Launch the loop and compare its accumulators. Errors: GpuError if they are not the product."""
        turns = TURNS_OF_A_SUM + 3
        self.launch(turns)
        found = accumulators(self.loop, self._held[2].cpu().numpy())
        wanted = expected(self.loop, self._image, self._fragments, turns)
        worst = float(np.abs(found - wanted).max())
        if not worst <= 2.0**-10 * np.abs(wanted).max():
            raise runtime.GpuError(f"{self.loop}: an accumulator is off by {worst:.2e}.")

    def times(self) -> tuple[float, float]:
        """Cycles and nanoseconds of the last launch: each CTA's slowest warpgroup, and the CTAs' median."""
        by_block = self._held[3].view(self.blocks, -1, 2).amax(dim=1).double()
        cycles, nanoseconds = by_block.median(dim=0).values.tolist()
        return cycles, nanoseconds

    def row(self) -> dict[str, Any]:
        """The rate of a short launch."""
        turns = self.loop.turns()
        for _ in range(REPEATS):
            self.launch(turns)
        cycles, nanoseconds = self.times()
        work = self.loop.flops(turns, self.blocks)
        per_cycle = work / 2 / self.blocks / cycles
        return {
            **vars(self.loop),
            "fmas_per_cycle": per_cycle,
            "share_of_peak": per_cycle / PEAK,
            "clock_mhz": cycles / nanoseconds * 1e3,
            "tflops": work / nanoseconds / 1e3,
            "registers": self.kernel.built.registers,
            "spill_bytes": self.kernel.built.spill_bytes,
            "serialized": self.kernel.built.serialized,
        }

    def sustained(self, settle_s: float = SETTLE_S, seconds: float = SUSTAINED_S) -> dict[str, Any]:
        """The rate under sustained load, with clock and power."""
        turns = self.loop.turns(LONG * FMAS)
        reading = sustain(lambda: self.launch(turns), 1, settle_s, seconds)
        cycles, nanoseconds = self.times()
        tflops = self.loop.flops(turns, self.blocks) / reading.seconds / 1e12
        return {
            **vars(self.loop),
            "tflops": tflops,
            "watts": reading.watts,
            "clock_mhz": cycles / nanoseconds * 1e3,
            "nvml_clock_mhz": reading.clock_mhz,
            "joules_per_tflop": reading.watts / tflops,
            "fmas_per_cycle": self.loop.flops(turns, 1) / 2 / cycles,
        }


def build(loop: Loop, blocks: int) -> Built:
    """Assemble a loop."""
    spec = rate_spec(blocks, loop)
    return assembled(spec.ptx or "", spec, "wgmma_rate", "sm_90a")


def ceiling(blocks: int) -> Runner:
    """The loop whose rate no GEMM can exceed: m64n256k16, two warpgroups, A and B in shared memory."""
    loop = SUSTAINED[0]
    runner = Runner(loop, build(loop, blocks), blocks)
    runner.check()
    return runner


def measure(blocks: int) -> dict[str, Any]:
    """Check every loop and time it briefly, and time some loops until the power limit acts."""
    loops = list(dict.fromkeys((*SHORT, *SUSTAINED)))
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        built = dict(zip(loops, pool.map(build, loops, [blocks] * len(loops), chunksize=4), strict=True))
    rows = []
    for loop in SHORT:
        runner = Runner(loop, built[loop], blocks)
        runner.check()
        rows.append(runner.row())
    steady = [Runner(loop, built[loop], blocks).sustained() for loop in SUSTAINED]
    return {"rows": rows, "sustained": steady}


def table(result: dict[str, Any]) -> str:
    """Format the multiply-adds of an SM in a cycle, one line for each N."""
    columns = [(a, warpgroups) for a in ("shared memory", "registers") for warpgroups in (1, 2)]
    found = {(row["a"], row["warpgroups"], row["n"]): row for row in result["rows"]}
    heads = (f"A in {a}, {warpgroups}" for a, warpgroups in columns)
    lines = ["multiply-adds of an SM in a cycle", "  N" + "".join(f"{head:>22}" for head in heads)]
    for n in sorted({row["n"] for row in result["rows"]}):
        cells = (found[(*column, n)] for column in columns)
        lines.append(f"{n:>3}" + "".join(f"{row['fmas_per_cycle']:>22.0f}" for row in cells))
    lines += [
        f"sustained: N = {row['n']}, {row['warpgroups']} warpgroups, A in {row['a']}, {row['numbers']}: "
        f"{row['tflops']:.0f} TFLOP/s, {row['watts']:.0f} W, {row['clock_mhz']:.0f} MHz (NVML "
        f"{row['nvml_clock_mhz']:.0f}), {row['joules_per_tflop']:.3f} J per TFLOP"
        for row in result["sustained"]
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Measure, write the result, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    found = runtime.discover()
    if not found.devices or found.devices[0].compute_capability != (9, 0):
        why = found.devices[0].name if found.devices else found.reason
        print(f"wgmma_rate: needs a Hopper GPU, and this machine has none: {why}", file=sys.stderr)
        return 1
    import torch

    gpu = found.devices[0]
    torch.zeros(1, device="cuda")  # PyTorch's context is the primary one, which the kernels share
    result = {
        "recorded": {**of_this_machine(), "multiprocessors": gpu.multiprocessors, "torch": torch.__version__},
        "peak_fmas_per_cycle": PEAK,
        "method": {
            "rows": f"the last of {REPEATS} launches of about a million cycles; the CTAs' median",
            "sustained": f"{SUSTAINED_S} s after {SETTLE_S} s; watts from NVML's energy counter",
        },
        **measure(gpu.multiprocessors),
    }
    output = options.output or result_path("wgmma_rate", gpu.name)
    output.write_text(json.dumps(result, indent=1) + "\n")
    print(table(result))
    print(f"written: {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
