"""umma_tma_multicast for a cluster of 2x2: right, and with one thing wrong at a time.

The cluster of four CTAs is small, so traces and reports stay short. C is 256x512 and K is 256. Each CTA sends
half of its tile of A to its neighbour along N, and half of its tile of B to its neighbour along M.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from functools import cache

from cutecourse.kernels import umma_tma_multicast
from cutecourse.kernels.faults import Fault, by_name, changed_module, changed_text
from cutecourse.kernels.spec import LaunchSpec, SpecError, Tensor, TensorMapSpec

_SMALLER = (
    ("MNK = (512, 1024, 256)\n", "MNK = (256, 512, 256)\n"),
    ("CLUSTER = (4, 4, 1)\n", "CLUSTER = (2, 2, 1)\n"),
)
_EXTENTS = {"a": (256, 256), "b": (512, 256), "c": (256, 512)}

_EXPECT = "mbarrier_arrive_and_expect_tx(tma_barrier, tile_bytes)\n"
_FREE = "        cute.arch.mbarrier_wait(mma_barrier, k % 2)\n"
_LOADED = "        cute.arch.mbarrier_wait(tma_barrier, k % 2)\n"
_COMMIT = "tcgen05.commit(mma_barrier, mask_a | mask_b)\n"
_COUNT = "    senders = CLUSTER[0] + CLUSTER[1] - 1\n"
_SLICE = "atom_a, cta_coord[2], along_n"
_CLUSTER_BARRIER = "    cute.arch.cluster_arrive()\n    cute.arch.cluster_wait()\n"

FAULTS = by_name(
    umma_tma_multicast,
    (
        Fault(
            "own_slices_expected",
            _EXPECT,
            _EXPECT.replace("tile_bytes", "tile_bytes // 2"),
            "a CTA expects the bytes that it loads itself, not those that land in it",
        ),
        Fault(
            "two_ctas_expected",
            _EXPECT,
            _EXPECT.replace("tile_bytes", "2 * tile_bytes"),
            "a CTA expects the bytes of two CTAs, as the leader of a pair does",
        ),
        Fault(
            "commit_to_own_row",
            _COMMIT,
            _COMMIT.replace(" | mask_b", ""),
            "the commit arrives at the CTAs that share A, not at those that share B",
        ),
        Fault(
            "count_of_own_row",
            _COUNT,
            "    senders = CLUSTER[1]\n",
            "a CTA counts the commits of those that share A, and not of those that share B",
        ),
        Fault(
            "parity_never_flipped",
            _LOADED,
            _LOADED.replace("k % 2", "0"),
            "the second wait for bytes is for the phase that ended with the first k-tile",
        ),
        Fault(
            "slice_along_m",
            _SLICE,
            _SLICE.replace("cta_coord[2]", "cta_coord[1]"),
            "the CTAs that share A load the same slice of it, and nobody the others",
        ),
        Fault(
            "no_cluster_barrier",
            _CLUSTER_BARRIER,
            "    cute.arch.sync_threads()\n",
            "a neighbour may send before this CTA's barriers are there",
        ),
        Fault(
            "parity_flipped",
            _FREE,
            _FREE.replace("k % 2", "k % 2 ^ 1"),
            "the wait for a free stage is one phase late, so nothing stops the refill",
        ),
    ),
)


def _operand(parameter: Tensor) -> Tensor:
    """A parameter of the kernel for the small problem: as many rows as two CTAs have, for two receivers."""
    extents = _EXTENTS[parameter.name]
    smaller = replace(parameter, shape=extents, stride=(extents[1], 1))
    return replace(smaller, num_multicast=2) if isinstance(smaller, TensorMapSpec) else smaller


@cache
def small(*names: str, changes: tuple[tuple[str, str], ...] = ()) -> LaunchSpec:
    """The launch for a 2x2 cluster, with the faults of these names and then these changes put in.

    Errors: SpecError for a name that is none of `FAULTS`, and for a change of a text that is not there once.
    """
    mark = [f"{zlib.crc32(repr(changes).encode()):08x}"] if changes else []
    suffix = "_".join(("small", *names, *mark))
    spec = changed_module(umma_tma_multicast, suffix, _all_changes(names, changes)).LAUNCH
    assert isinstance(spec, LaunchSpec)
    return replace(
        spec,
        grid=(2, 2, 1),
        cluster=(2, 2, 1),
        params=tuple(_operand(one) for one in spec.params if isinstance(one, Tensor)),
    )


def text(*names: str) -> str:
    """The kernel's file for a 2x2 cluster with the faults of these names put in. Errors: as `small`."""
    return changed_text(umma_tma_multicast, _all_changes(names, ()))


def broken(name: str) -> LaunchSpec:
    """The launch for a 2x2 cluster with one fault. Errors: SpecError for a name that is none."""
    return small(name)


def _all_changes(names: tuple[str, ...], changes: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    unknown = [name for name in names if name not in FAULTS]
    if unknown:
        raise SpecError(f"umma_tma_broken has no fault {unknown[0]!r}; it has {', '.join(FAULTS)}.")
    faults = [(FAULTS[name].right, FAULTS[name].wrong) for name in names]
    return (*_SMALLER, *faults, *changes)


LAUNCH = small()
