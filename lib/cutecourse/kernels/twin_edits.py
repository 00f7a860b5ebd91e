"""Changes of a kernel, and the same changes of its twin: so a kernel with a fault has a twin with that fault.

`FAULTS` has the faults of the modules of broken kernels, by the fault's name. `CHANGES` has what pages and
bug hunts change in a kernel's text. An edit of a twin replaces a text that the twin has once. An edit that
leaves nothing takes the whole lines out, with their comments.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import itertools
from collections.abc import Mapping

from cutecourse.kernels.files import SpecError, kernel_file, kernel_module

__all__ = ["CHANGES", "FAULTS", "edited"]

Edits = tuple[tuple[str, str], ...]
Change = tuple[Edits, Edits]
"""What is replaced in a kernel's file, and the edits of the twin for it."""

_WGMMA_WAIT = "wgmma.wait_group.sync.aligned 0;"

FAULTS: Mapping[str, tuple[str, Mapping[str, Edits]]] = {
    "copy_predicated": (
        "copy_broken",
        {
            "no_wait": tuple((f"cp.async.wait_group {left};", "") for left in (3, 2, 1, 0)),
            "unguarded_tail": tuple(
                (
                    f"setp.gt.and.s32     %p{i}, %left, {8 * i}, %inside_n;",
                    f"setp.eq.u32         %p{i}, 0, 0;",
                )
                for i in range(4)
            ),
        },
    ),
    "gemm_stages": (
        "gemm_broken",
        {
            "one_stage_too_few": tuple(
                (
                    f"setp.eq.u32         %again, %{stage}, 24576;",
                    f"setp.eq.u32         %again, %{stage}, 16384;",
                )
                for stage in ("filled", "read")
            ),
            "one_group_too_many": (("cp.async.wait_group 1;", "cp.async.wait_group 2;"),),
        },
    ),
    "hopper_clusters": (
        "hopper_broken",
        {
            "released_early": (("wgmma.wait_group.sync.aligned 1;", "wgmma.wait_group.sync.aligned 2;"),),
            "counts_one_warpgroup": (("[%full + 196640], 16;", "[%full + 196640], 8;"),),
            "tells_its_own_cta": (("u32 %far, %at, %far;", "u32 %far, %at, %rank;"),),
            "remote_arrive_forgotten": (
                ("setp.lt.u32         %tells, %at, 2;", "setp.lt.u32         %tells, %at, 1;"),
            ),
            "starts_with_the_wrong_parity": (("xor.b32             %parity, %parity, 1;", ""),),
            "expects_its_own_half": (("[%full], 49152;", "[%full], 32768;"),),
        },
    ),
    "wgmma_one": (
        "wgmma_broken",
        {
            "no_fence": (("wgmma.fence.sync.aligned;", ""),),
            "no_commit": (("wgmma.commit_group.sync.aligned;", ""),),
            "no_wait": ((_WGMMA_WAIT, ""),),
            "no_proxy_fence": (("fence.proxy.async.shared::cta;", ""),),
            "one_group_too_many": ((_WGMMA_WAIT, _WGMMA_WAIT.replace("0", "1")),),
            "no_last_wait": (
                (
                    _WGMMA_WAIT,
                    f"""\
setp.ge.u32         %more, %k, ${{K}} - 64;
    @%more bra          LAST;
    {_WGMMA_WAIT}
LAST:""",
                ),
            ),
            "cleared_too_early": (
                (
                    _WGMMA_WAIT,
                    f"""\
mov.b32             %w0, 0;
    mad.lo.u32          %at, %me, 64, %tiles;
    st.shared.v4.b32    [%at], {{%w0, %w0, %w0, %w0}};
    st.shared.v4.b32    [%at + 16], {{%w0, %w0, %w0, %w0}};
    st.shared.v4.b32    [%at + 32], {{%w0, %w0, %w0, %w0}};
    st.shared.v4.b32    [%at + 48], {{%w0, %w0, %w0, %w0}};
    {_WGMMA_WAIT}""",
                ),
            ),
        },
    ),
    "umma_tile": (
        "umma_tile_broken",
        {
            "no_proxy_fence": (("fence.proxy.async.shared::cta;", ""),),
            "no_wait": (("%done, [%free], %parity;", ""), ("@!%done bra         UNTIL_FREE;", "")),
            "parity_never_flipped": (("[%free], %parity;", "[%free], 0;"),),
            "never_cleared": (("setp.ne.u32         %sum, 0, 0;", "setp.eq.u32         %sum, 1, 1;"),),
            "every_k_tile_cleared": (("K_TILE:\n", "K_TILE:\n    setp.ne.u32         %sum, 0, 0;\n"),),
            "wrong_lanes": (
                (
                    "    shl.b32             %from, %warp, 21;",
                    """\
    xor.b32             %warp, %warp, 1;
    xor.b32             %thread, %thread, 32;
    shl.b32             %from, %warp, 21;""",
                ),
            ),
            "every_warp_multiplies": (("@!%warp_0 bra       UNTIL_FREE;", ""),),
            "allocated_twice": (
                (
                    "[%slot], 128;\n",
                    """[%slot], 512;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%slot], 512;
""",
                ),
            ),
            "not_freed": (("tcgen05.dealloc", ""),),
        },
    ),
    "umma_tma_multicast": (
        "umma_tma_broken",
        {
            "own_slices_expected": (("[%full], 49152;", "[%full], 24576;"),),
            "two_ctas_expected": (("[%full], 49152;", "[%full], 98304;"),),
            "commit_to_own_row": (("[%free], %mask_free;", "[%free], %mask_a;"),),
            "count_of_own_row": (("${cluster_0} + ${cluster_1} - 1;", "${cluster_1};"),),
            "parity_never_flipped": (("[%full], %parity;", "[%full], 0;"),),
            "slice_along_m": (("%slice_a, %n, 128", "%slice_a, %m, 128"),),
            "no_cluster_barrier": (
                ("barrier.cluster.arrive.aligned;", "bar.sync            0;"),
                ("barrier.cluster.wait.aligned;", ""),
            ),
            "parity_flipped": (
                (
                    """
UNTIL_FREE:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [%free], %parity;""",
                    """
UNTIL_FREE:
    xor.b32             %bits, %parity, 1;
    mbarrier.try_wait.parity.shared::cta.b64 %done, [%free], %bits;""",
                ),
            ),
        },
    ),
    "umma_two_sm_pipeline": (
        "umma_broken",
        {
            "wrong_mask": (("%mask_a, %for_a;", "%mask_a, %for_b;"),),
            "peer_not_expected": (("[%barrier], 65536;", "[%barrier], 32768;"),),
            "follower_multiplies": (
                (
                    "and.pred            %multiplies, %multiplies, %leads;",
                    "@%leads setp.ne.u32 %multiplies, 0, 0;",
                ),
            ),
            "commit_to_itself": (
                (
                    "one.shared::cluster.multicast::cluster.b64\n            [%barrier], %mask_empty;",
                    "one.shared::cluster.b64\n            [%barrier];",
                ),
            ),
            "stage_reused": (
                ("[%barrier + 98328], %before;", ""),
                ("@!%done bra         UNTIL_EMPTY;", ""),
            ),
            "freed_too_early": (
                (
                    "    barrier.cluster.arrive.aligned;                     // all have read",
                    "",
                ),
                ("barrier.cluster.wait.aligned;\n    @!%warp_0 bra       END;", "@!%warp_0 bra       END;"),
                ("END:\n", "END:\n    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n"),
            ),
            "never_cleared": (("setp.ne.u32         %sum, 0, 0;", "setp.eq.u32         %sum, 1, 1;"),),
            "not_finished": (
                ("%done, [%finished], 0;", ""),
                ("@!%done bra         UNTIL_FINISHED;", ""),
            ),
        },
    ),
}
"""The faults of a kernel by name: the module that lists them, and each as edits of the twin."""

BOUNDED: Mapping[str, Edits] = {
    "hopper_clusters": (
        (".param .u64 c)", ".param .u64 c, .param .u64 gave_up)"),
        (".reg .f32 %c<128>;", ".reg .f32 %c<128>;\n    .reg .b32 %tries;\n    .reg .b64 %gave_up;"),
        *(
            (
                f"""\
UNTIL_{what}:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [%full + {at}], %parity;
    @!%done bra         UNTIL_{what};
""",
                f"""\
    mov.u32             %tries, 1000;
UNTIL_{what}:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [%full + {at}], %parity;
    @%done bra          IS_{what};
    sub.u32             %tries, %tries, 1;
    setp.ne.u32         %p, %tries, 0;
    @%p bra             UNTIL_{what};
    mov.u32             %at, %ctaid.x;                  // gave_up[CTA along M, CTA along N, warp] = 1
    mov.u32             %block, %nctaid.y;
    mul.lo.u32          %at, %at, %block;
    mov.u32             %block, %ctaid.y;
    add.u32             %at, %at, %block;
    shr.u32             %block, %thread, 5;
    mad.lo.u32          %at, %at, 12, %block;
    mul.wide.u32        %offset, %at, 4;
    ld.param.u64        %gave_up, [gave_up];
    cvta.to.global.u64  %gave_up, %gave_up;
    add.u64             %gave_up, %gave_up, %offset;
    mov.u32             %at, 1;
    st.global.u32       [%gave_up], %at;
IS_{what}:
{slow}""",
            )
            for what, at, slow in (
                (
                    "FULL",
                    196608,
                    """\
    setp.eq.u32         %p, %rank, 1;
    @%p nanosleep.u32   4000;
""",
                ),
                ("EMPTY", 196640, ""),
            )
        ),
    ),
}
"""The edits for what a module of faults does to its whole kernel (`BOUNDED` there): waits that end."""

CHANGES: Mapping[str, tuple[tuple[str, str, Edits], ...]] = {
    "hopper_clusters": (
        (
            "    k_tiles = cute.size(gA, mode=[2])\n",
            """\
    k_tiles = cutlass.Int32(cute.size(gA, mode=[2]))
    if block_m * TILE[0] >= mC.shape[0]:
        k_tiles = cutlass.Int32(0)  # a tile behind the last row has nothing to multiply
""",
            (
                (
                    "shr.u32             %group, %thread, 7;",
                    """\
setp.ge.u32         %p, %tile_m, ${M};              // a tile behind the last row has nothing to multiply
    @%p bra             DONE;
    shr.u32             %group, %thread, 7;""",
                ),
            ),
        ),
    ),
    "hopper_roles": (
        (
            "CONSUMER_REGISTERS = 40, 232",
            "CONSUMER_REGISTERS = 40, 240",
            (("setmaxnreg.inc.sync.aligned.u32 232;", "setmaxnreg.inc.sync.aligned.u32 240;"),),
        ),
    ),
    "hopper_stages": (
        (
            "warpgroup.wait_group(1)",
            "warpgroup.wait_group(2)",
            (("wgmma.wait_group.sync.aligned 1;", "wgmma.wait_group.sync.aligned 2;"),),
        ),
    ),
    "umma_one": (
        (
            "        cute.arch.fence_view_async_tmem_load()\n",
            "",
            (("tcgen05.wait::ld.sync.aligned;", ""),),
        ),
        (
            "    cute.arch.mbarrier_wait(mma_barrier, 0)\n",
            "",
            (("%done, [%read], 0;", ""), ("@!%done bra         UNTIL_READ;", "")),
        ),
    ),
    "umma_tile": (
        (
            "            with cute.arch.elect_one():\n                tcgen05.commit(",
            "        if warp == 1:\n            with cute.arch.elect_one():\n                tcgen05.commit(",
            (
                ("    @!%warp_0 bra       UNTIL_FREE;", "    @!%warp_0 bra       COMMIT;"),
                (
                    "    @%elected tcgen05.commit",
                    """\
COMMIT:
    setp.eq.u32         %more, %warp, 1;
    @!%more bra         UNTIL_FREE;
    elect.sync          _|%elected, -1;
    @%elected tcgen05.commit""",
                ),
            ),
        ),
        (
            "mbarrier_init(mma_barrier, 1)",
            "mbarrier_init(mma_barrier, 4)",
            (("init.shared::cta.b64 [%free], 1;", "init.shared::cta.b64 [%free], 4;"),),
        ),
    ),
    "umma_tma_multicast": (  # The twin takes both from the launch.
        ("MNK = (512, 1024, 256)\n", "MNK = (256, 512, 256)\n", ()),
        ("CLUSTER = (4, 4, 1)\n", "CLUSTER = (2, 2, 1)\n", ()),
        (
            "senders = CLUSTER[0] + CLUSTER[1] - 1\n",
            "senders = CLUSTER[0] * CLUSTER[1]\n",
            (("${cluster_0} + ${cluster_1} - 1;", "${cluster_0} * ${cluster_1};"),),
        ),
    ),
    "umma_two_sm": (
        (
            "tiled_mma.get_slice(rank)",
            "tiled_mma.get_slice(0)",
            (("shl.b32             %row, %rank, 7;", "mov.u32             %row, 0;"),),
        ),
    ),
    "umma_two_sm_pipeline": (
        (
            "mbarrier_wait(empty + stage, turn % 2 ^ 1)",
            "mbarrier_wait(empty + stage, turn % 2)",
            (("xor.b32             %before, %parity, 1;", "mov.u32             %before, %parity;"),),
        ),
        (
            "cute.size(cluster_layout_vmnk, mode=[2]) - 1\n    if",
            "cute.size(cluster_layout_vmnk, mode=[2]) - 2\n    if",
            tuple((f"[%base + {at}], 5;", f"[%base + {at}], 4;") for at in (98328, 98336, 98344)),
        ),
    ),
}
"""Other changes of a kernel's file: the text, its replacement, and the edits of the twin."""


def edited(name: str, changed: str, twin: str) -> str:
    """The twin's text with the edits for a kernel's text that was changed.

    name     the kernel's. `changed` is the text of its file with some of the known changes put in; comments
             may differ.
    Errors:  SpecError for a text that no set of the known changes gives.
    """
    original = kernel_file(name).text
    code = _code(changed)
    if code == _code(original):
        return twin
    module, of_faults = FAULTS.get(name, (None, {}))
    faults = kernel_module(module).FAULTS if module else {}
    known: list[Change] = [
        *((((right, wrong),), edits) for right, wrong, edits in CHANGES.get(name, ())),
        *((((faults[fault].right, faults[fault].wrong),), edits) for fault, edits in of_faults.items()),
    ]
    if name in BOUNDED:
        known.insert(0, (kernel_module(module).BOUNDED, BOUNDED[name]))
    possible = [change for change in known if any(wrong in changed for _, wrong in change[0])]
    for count in range(1, len(possible) + 1):
        for changes in itertools.combinations(possible, count):
            if _code(_replaced(original, changes)) == code:
                for _, edits in changes:
                    twin = _with_edits(name, twin, edits)
                return twin
    raise SpecError(
        f"{name} has a twin in PTX, but its text was changed, and this change is not known there."
    )


@functools.cache
def _code(text: str) -> str:
    """Return a digest of a text's syntax, without comments and without the text's own docstring.

    Kept, since a page that goes through a kernel's faults asks for the same texts again and again.
    """
    tree = ast.parse(text)
    if ast.get_docstring(tree) is not None:
        del tree.body[0]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _replaced(text: str, changes: tuple[Change, ...]) -> str:
    for replacements, _ in changes:
        for right, wrong in replacements:
            text = text.replace(right, wrong)
    return text


def _with_edits(name: str, text: str, edits: Edits) -> str:
    for right, wrong in edits:
        if text.count(right) != 1:
            raise SpecError(
                f"the twin of {name} has {right!r} {text.count(right)} times; it must be there once."
            )
        if wrong:
            text = text.replace(right, wrong)
        else:
            start, end = text.index(right), text.index(right) + len(right)
            text = text[: text.rindex("\n", 0, start) + 1] + text[text.index("\n", end) + 1 :]
    return text
