"""For each hazard a small kernel that meets it: `SCENES[name]`, and `met(name, severity)` to run it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cutecourse import runtime
from cutecourse.emulator import EmulatorError, Note, TensorMap, launch
from cutecourse.kernels.scaled.scaled_one import faults as scale_faults
from support import loaded_mma, tcgen05
from support.loaded_mma import MMA, Box
from support.tcgen05 import COLUMNS, DESCRIPTOR, FENCE, SETUP, ZEROS, descriptor, done, idesc, multiply
from tools.cases import ptx_cases
from tools.cases.wgmma_ptx import ROWS, Wgmma

__all__ = ["SCENES", "Product", "Scene", "Warpgroup", "met", "plain"]

AFTER = "tcgen05.fence::after_thread_sync;\n"
BEFORE = "tcgen05.fence::before_thread_sync;\n"
LD = "tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r4, %r5, %r6, %r7}, [%d];\n"
ST = "tcgen05.st.sync.aligned.32x32b.x4.b32 [%d], {%r0, %r0, %r0, %r0};\n"
WAIT_LD, WAIT_ST = "tcgen05.wait::ld.sync.aligned;\n", "tcgen05.wait::st.sync.aligned;\n"
BAR = "bar.sync 0;\n"
USE = "st.global.b32 [%at], %r6;\n"


def plain(body: str, directives: str = "") -> str:
    """A kernel whose body finds %me, %rank, %first, %to, `full`, `fixed` and `box` of 64 words."""
    return f"""
.version 8.8
.target sm_100a
.address_size 64
.const .b32 fixed[4];
.visible .entry k(.param .u64 out)
{directives}
{{
    .shared .align 8 .b64 full;
    .shared .align 128 .b32 box[64];
    .reg .b32 %me, %rank, %x, %y;
    .reg .b64 %to, %wide;
    .reg .pred %first, %p;
    ld.param.u64 %to, [out];
    mov.u32 %me, %tid.x;
    mov.u32 %rank, %cluster_ctarank;
    setp.eq.u32 %first, %me, 0;
    {body}
    ret;
}}
"""


@dataclass(frozen=True)
class Scene:
    """A kernel that meets a hazard, with some seed below `seeds`."""

    body: str
    tensor: bool = False
    seeds: int = 1
    options: dict[str, Any] = field(default_factory=dict)
    directives: str = ""
    """Of the entry, where it is none of tensor memory."""

    def launch(self, seed: int, hazards: dict[str, str]) -> tuple[Note, ...]:
        """Run it; the notes."""
        if self.tensor:
            quiet = {"sum never read": "off", **hazards}
            return tcgen05.run_zeros(self.body, seed=seed, hazards=quiet).notes
        how = {"grid": 1, "block": 32, "args": [np.zeros(64, np.uint32)], **self.options}
        return launch(
            plain(self.body, self.directives),
            seed=seed,
            hazards=hazards,
            **how,
        ).notes


@dataclass(frozen=True)
class ChangedMap:
    """A copy through a tensor map that the kernel has changed and not acquired."""

    seeds: int = 1

    def launch(self, seed: int, hazards: dict[str, str]) -> tuple[Note, ...]:
        """Run it; the notes."""
        case = ptx_cases.load("tensor/map_replaced")
        text = re.sub(r" +fence\.proxy\.tensormap.*\n", "", case.ptx).replace("entry kernel", "entry k")
        given = case.launch_arguments(case.make_args())
        return launch(text, **(given | {"entry": "k", "seed": seed, "hazards": hazards})).notes


M, N, K = 128, 16, 32
B_AT = M * 2 * K


def _k_major(place: int, k: int) -> int:
    """The descriptor of the 16 k from k on of a tile in rows of 64 bytes."""
    return descriptor(place + 2 * k, 16, 512, "64B")


@dataclass(frozen=True)
class Product:
    """Tiles (M, K) and (N, K) of f16 that tensor copies load, multiplied: as it stands it is right."""

    swizzles: tuple[str, str] = ("64B", "64B")
    row: int = 0
    """Where A's tile begins in its tensor, which has M rows, and columns beside those of the tile."""
    mmas: tuple[MMA, ...] = tuple(
        MMA(_k_major(0, k), _k_major(B_AT, k), idesc(M, N), adds=k > 0) for k in range(0, K, 16)
    )
    seeds: int = 1

    def launch(self, seed: int, hazards: dict[str, str]) -> tuple[Note, ...]:
        """Run it; the notes."""
        arrays = [
            np.random.default_rng(rows).integers(1, 5, (rows, 2 * K)).astype(np.float16) for rows in (M, N)
        ]
        maps = [
            TensorMap.tiled(a, dims=a.shape[::-1], strides=(4 * K,), box=(K, len(a)), swizzle=swizzle)
            for a, swizzle in zip(arrays, self.swizzles, strict=True)
        ]
        boxes = [Box(0, (0, self.row), 0, M * 2 * K), Box(1, (0, 0), B_AT, N * 2 * K)]
        smem = B_AT + N * 2 * K
        done, _ = loaded_mma.run(maps, boxes, self.mmas, columns=N, smem=smem, seed=seed, hazards=hazards)
        return done.notes

    def change(self, number: int, **fields: Any) -> Product:
        """Other fields of one of its MMAs."""
        mmas = list(self.mmas)
        mmas[number] = replace(mmas[number], **fields)
        return replace(self, mmas=tuple(mmas))


@dataclass(frozen=True)
class Warpgroup:
    """A right wgmma whose operands threads store; `without` is left out of its text."""

    without: str = ""
    seeds: int = 1

    def launch(self, seed: int, hazards: dict[str, str]) -> tuple[Note, ...]:
        """Run it; the notes."""
        kernel = Wgmma(n=8, swizzle_a="32B", swizzle_b="32B")
        text = kernel.ptx().replace(".entry kernel(", ".entry k(")
        assert self.without in text
        a, b = np.ones((ROWS, kernel.k), np.float16), np.ones((kernel.n, kernel.k), np.float16)
        c, d = (np.zeros((ROWS, kernel.n), np.float32) for _ in range(2))
        args = [a, b, c, d]
        return launch(
            text.replace(self.without, ""), grid=1, block=128, args=args, seed=seed, hazards=hazards
        ).notes


@dataclass(frozen=True)
class Chain:
    """A launch that lets the next one start, and one that reads its result."""

    seeds: int = 1

    def launch(self, seed: int, hazards: dict[str, str]) -> tuple[Note, ...]:
        """Run both; the notes of the second one."""
        first = plain("griddepcontrol.launch_dependents;\nst.global.u32 [%to], %me;\n")
        second = plain("ld.global.u32 %x, [%to];\n")
        to = np.zeros(64, np.uint32)
        before = launch(first, grid=1, block=64, args=[to], has_dependents=True)
        return launch(second, grid=1, block=64, args=[to], primary=before, seed=seed, hazards=hazards).notes


@dataclass(frozen=True)
class Factors:
    """A kernel with scale factors, in which B is scaled by A's."""

    seeds: int = 1

    def launch(self, seed: int, hazards: dict[str, str]) -> tuple[Note, ...]:
        """Run it; its notes."""
        fault = scale_faults.FAULTS["columns_of_a"]
        given, _, _ = scale_faults.arguments(seed)
        spec = scale_faults.LAUNCH.with_fault(fault)
        return runtime.run(spec, device="emulator", seed=seed, hazards=hazards, **given).notes


INIT = "@%first mbarrier.init.shared::cta.b64 [full], 1;\n bar.sync 0;\n"
WAIT = "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %p, [full], 0;\n@!%p bra AGAIN;\n"
LOAD = "@%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [box], [%to], 16, [full];\n"
LATER = "mov.u32 %y, 0;\nSPIN: add.u32 %y, %y, 1;\nsetp.lt.u32 %p, %y, 5000;\n@%p bra SPIN;\n"
EXPECT = "@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 16;\n"
STORE = "@%first cp.async.bulk.global.shared::cta.bulk_group [%to], [box], 16;\n"
PAIR = {"grid": 2, "cluster": 2}
STORED = ST + WAIT_ST + BEFORE + BAR + AFTER
A_IN_TMEM = "add.u32 %d, %d, 64;\n" + ST + "add.u32 %d, %d, 4;\n" + STORED

PRODUCT = Product()

SCENES: dict[str, Scene | Product | Warpgroup | ChangedMap | Chain | Factors] = {
    "deadlock": Scene(INIT + WAIT),
    "transaction bytes": Scene(
        INIT
        + EXPECT
        + LOAD
        + LOAD.replace("[box]", "[box+16]")
        + WAIT
        + LATER
        + "@%first ld.shared.b32 %x, [box];\n@%first ld.shared.b32 %x, [box+16];\n"
        + EXPECT
        + WAIT.replace("AGAIN", "LAST").replace("0;", "1;")
    ),
    "endless": Scene("AGAIN: bra AGAIN;\n", options={"max_instructions": 1000}),
    "trap": Scene("trap;"),
    "no mbarrier": Scene("@%first mbarrier.arrive.shared::cta.b64 _, [full];\n"),
    "mbarrier in use": Scene(INIT + "@%first mbarrier.init.shared::cta.b64 [full], 1;\n"),
    "mbarrier count": Scene(INIT + "@%first mbarrier.arrive.shared::cta.b64 _, [full], 2;\n"),
    "mbarrier state": Scene(INIT + "mbarrier.try_wait.parity.shared::cta.b64 %p, [full], 2;\n"),
    "barrier rules": Scene("barrier.cluster.wait.aligned;\n"),
    "barrier skipped": Scene(
        "setp.ge.u32 %p, %me, 64;\n@%p bra OVER;\nbar.sync 0;\nOVER:\n", options={"block": 128}
    ),
    "parity of minus one": Scene(INIT + "mbarrier.try_wait.parity.shared::cta.b64 %p, [full], -1;\n"),
    "open phase": Scene(INIT + LOAD + LATER, seeds=8),
    "bytes never sent": Scene(INIT + EXPECT),
    "array of another type": Scene(
        ".reg .f64 %f;\nld.global.f64 %f, [%to];\n", options={"args": [np.zeros(64, np.float32)]}
    ),
    "out of bounds": Scene("ld.global.b32 %x, [%to+4096];\n"),
    "misaligned": Scene("st.shared.b32 [box+2], %me;\n"),
    "never written": Scene("ld.shared.b32 %x, [box];\n"),
    "read-only": Scene("mov.u64 %wide, fixed;\ncvta.const.u64 %wide, %wide;\nst.b32 [%wide], %me;\n"),
    "ended CTA": Scene(
        "setp.eq.u32 %p, %rank, 1;\n@%p ret;\n"
        "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
        "mov.u32 %x, box;\nmapa.shared::cluster.u32 %x, %x, 1;\nst.shared::cluster.b32 [%x], %me;\n",
        options=PAIR,
    ),
    "multicast": Scene(
        INIT
        + ".reg .b16 %m;\nmov.b16 %m, 4;\n"
        + LOAD.replace("bytes [", "bytes.multicast::cluster [").replace("[full];", "[full], %m;"),
        options=PAIR,
    ),
    "race": Scene("st.shared.b32 [box], %me;\n", options={"block": 64}),
    "lanes not ordered": Scene(
        "setp.eq.u32 %p, %me, 0;\n@%p st.shared.b32 [box], %me;\nld.shared.b32 %x, [box];\n"
    ),
    "scope too narrow": Scene(
        "@%first mbarrier.init.shared::cta.b64 [full], 1;\n"
        "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
        "setp.eq.u32 %p, %rank, 1;\n@%p bra READ;\n"
        "mov.u32 %x, box;\nmapa.shared::cluster.u32 %x, %x, 1;\n@%first st.shared::cluster.b32 [%x], %me;\n"
        "mov.u32 %y, full;\nmapa.shared::cluster.u32 %y, %y, 1;\n"
        "@%first mbarrier.arrive.shared::cluster.b64 _, [%y];\nbra OVER;\nREAD:\n"
        + WAIT
        + "ld.shared.b32 %x, [box];\nOVER:\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n",
        options=PAIR,
    ),
    "same value written": Scene("st.shared.b32 [box], 7;\n", options={"block": 64}),
    "read before its wait": Scene(INIT + EXPECT + LOAD + LATER + "ld.shared.b32 %x, [box];\n" + WAIT),
    "stage reused early": Scene(INIT + EXPECT.replace("16;", "32;") + LOAD + LOAD + WAIT),
    "unfinished copy": Scene(
        "st.shared.b32 [box], %me;\nst.shared.v4.b32 [box], {%me, %me, %me, %me};\n" + FENCE + STORE
    ),
    "unfinished load": Scene(INIT + EXPECT + LOAD),
    "invalid operand": Scene("bar.warp.sync 0;\n"),
    "non-uniform operand": Scene(COLUMNS + "add.u32 %d, %d, %me;\n" + LD, tensor=True),
    "partial warp": Scene(
        "setp.lt.u32 %p, %me, 8;\n@%p bra SOME;\nbar.sync 1;\nSOME:\nbarrier.cluster.arrive.aligned;\n"
    ),
    "tensor memory allocation": Scene(
        "@!%p tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 48;\n", tensor=True
    ),
    "outside the allocation": Scene(COLUMNS + "add.u32 %d, %d, 200;\n" + LD, tensor=True),
    "used after dealloc": Scene(
        COLUMNS
        + ST
        + WAIT_ST
        + BAR
        + "setp.ne.u32 %p, %warp, 0;\n@%p bra OVER;\n"
        + "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tmem, 128;\nOVER:\n"
        + BAR
        + LD,
        tensor=True,
    ),
    "lanes left out": Scene(
        COLUMNS + STORED + LD.replace("[%d]", "[%tmem]") + WAIT_LD + BAR,
        tensor=True,
    ),
    "wrong lanes": Scene(COLUMNS + STORED + "add.u32 %d, %d, 0x100000;\n" + LD + WAIT_LD, tensor=True),
    "operand in a wrong lane": Scene(SETUP + multiply(column=0x100000) + done(), tensor=True),
    "tensor memory leak": Scene("ret;\n", tensor=True),
    "read before written": Scene(SETUP + STORED + multiply() + BAR + LD + WAIT_LD, tensor=True, seeds=8),
    "written before read": Scene(
        SETUP
        + "add.u32 %y, %tmem, 64;\n"
        + A_IN_TMEM
        + BAR
        + multiply(a="[%y]")
        + BAR
        + ST
        + WAIT_ST
        + done(),
        tensor=True,
        seeds=8,
    ),
    "source overwritten": Scene(
        SETUP + multiply() + "@%first st.shared.b32 [box], %r0;\n" + done(), tensor=True, seeds=8
    ),
    "no proxy fence": Scene(ZEROS + BAR + DESCRIPTOR + COLUMNS + multiply() + done(), tensor=True),
    "load under way": Scene(SETUP + multiply() + done() + AFTER + LD + ST + WAIT_ST + WAIT_LD, tensor=True),
    "load not waited for": Scene(SETUP + multiply() + done() + AFTER + LD + USE, tensor=True),
    "no fence after": Scene(SETUP + multiply() + done() + LD + WAIT_LD, tensor=True),
    "no fence before": Scene(SETUP + ST + WAIT_ST + BAR + AFTER + multiply() + done(), tensor=True),
    "another warp allocates or frees": Scene(
        COLUMNS
        + "setp.ne.u32 %p, %warp, 1;\n@%p bra OTHERS;\n"
        + "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\nOTHERS:\n",
        tensor=True,
    ),
    "order not promised": Scene(
        SETUP + multiply() + multiply(n=16) + done() + AFTER + LD + WAIT_LD, tensor=True, seeds=8
    ),
    "another layout": replace(PRODUCT, swizzles=("none", "64B")),
    "operand read twice": PRODUCT.change(0, b=descriptor(B_AT, 16, 0, "64B")),
    "another type": PRODUCT.change(0, idesc=idesc(M, N, extra=1 << 10)),
    "fill multiplied": replace(PRODUCT, row=M),
    "another scale": Factors(),
    "another k": PRODUCT.change(0, b=_k_major(B_AT, 16)).change(1, b=_k_major(B_AT, 0)),
    "loaded and never read": PRODUCT.change(1, idesc=idesc(M, N // 2)),
    "sum never read": PRODUCT.change(1, adds=False),
    "sum read in another type": PRODUCT.change(1, idesc=idesc(M, N, d="f16")),
    "accumulator in flight": Warpgroup("wgmma.wait_group.sync.aligned 0;"),
    "no wgmma fence": Warpgroup("wgmma.fence.sync.aligned;"),
    "register pool": Scene(
        "setmaxnreg.dec.sync.aligned.u32 72;\n", options={"block": 128}, directives=".maxnreg 64"
    ),
    "no tensor map fence": ChangedMap(),
    "request after refusal": Scene(
        """.reg .b128 %word;
    @%first mbarrier.init.shared::cta.b64 [full], 1;
    bar.warp.sync 0xffffffff;
    mov.u32 %x, 0;
AGAIN:
    @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 16;
    @%first clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [box], [full];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [full], %x;
    @!%p bra WAIT;
    ld.shared.b128 %word, [box];
    fence.proxy.async.shared::cta;
    bar.warp.sync 0xffffffff;
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p, %word;
    add.u32 %x, %x, 1;
    setp.lt.u32 %p, %x, 2;
    @%p bra AGAIN;
"""
    ),
    "no grid wait": Chain(),
    "grid dependency": Scene("griddepcontrol.wait;\n"),
    "setmaxnreg apart": Scene(
        "setp.lt.u32 %p, %me, 32;\n@%p bra ONE;\nsetmaxnreg.dec.sync.aligned.u32 40;\nbra OVER;\n"
        "ONE: setmaxnreg.dec.sync.aligned.u32 40;\nOVER:\n",
        options={"block": 128},
        directives=".maxnreg 64",
    ),
    "setmaxnreg ignored": Scene("setmaxnreg.dec.sync.aligned.u32 40;\n", options={"block": 128}),
}


def met(name: str, severity: str | None = None) -> EmulatorError | list[Note]:
    """Run the scene under its seeds until the hazard shows: the error, or all notes of the hazard."""
    notes: list[Note] = []
    hazards = {} if severity is None else {name: severity}
    for seed in range(SCENES[name].seeds):
        try:
            notes += [n for n in SCENES[name].launch(seed, hazards) if n.hazard.name == name]
        except EmulatorError as error:
            return error
    return notes
