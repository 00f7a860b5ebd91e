"""cp.async: copies from global to shared memory that proceed while the issuing thread runs on.

Executing cp.async copies nothing yet. The copy takes place when its thread waits for it; the launch's seed
chooses the order of the copies that one wait completes. From the cp.async to the wait the destination counts
as never written, so a read without the wait is an error and not a matter of luck.
"""

from __future__ import annotations

import numpy as np

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.facts import Facts, MemoryUse, Pipe
from cutecourse.emulator.core.kinds import WARP_SIZE, Mask
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import InvalidOperand
from cutecourse.emulator.instructions.copy_queue import CopyForm, CopyQueue, LaneCopies
from cutecourse.ptx.syntax import Instruction, IntLiteral

_PREFETCH = ("L2::64B", "L2::128B", "L2::256B")


def _facts(one: Instruction) -> Facts:
    size = one.operands[2] if len(one.operands) > 2 else None
    n_bytes = size.value if isinstance(size, IntLiteral) and size.value in {4, 8, 16} else 4
    return Facts(
        uses=(MemoryUse("global", n_bytes, reads=True), MemoryUse("shared", n_bytes, writes=True)),
        pipe=Pipe.COPIES_OF_THREADS,
        passes="cached copy" if "ca" in one.modifiers else "copy",
    )


@instruction("cp.async.ca", "cp.async.cg", facts=_facts)
def cp_async(site: Site) -> Step:
    """Start a copy from global to shared memory that proceeds while the thread does something else.

    Shapes:     each lane copies cp-size bytes, 4, 8 or 16 (.cg: 16), between addresses of its own. With
                src-size it reads only that many bytes and writes zeros for the rest; if the predicate
                ignore-src is true, it reads nothing and writes zeros.
    Units:      bytes; both addresses are multiples of cp-size.
    Errors:     AddressError, AlignmentError, InvalidOperand for a wrong size.
    Simplified: the copy reads its source and writes its destination when the thread waits; the hardware may
                do both at any earlier time. From the cp.async to the wait the destination counts as never
                written. Caching and prefetching have no effect.
    Source:     PTX ISA 9.0, cp.async (#data-movement-and-conversion-instructions-cp-async).
    """
    if not (site.one_of("shared", "shared::cta") and site.has("global")):
        site.unsupported("it copies from .global to .shared")
    hinted = site.has("L2::cache_hint")
    site.one_of(*_PREFETCH)
    size = site.constant(2)
    if size not in ({16} if "cg" in site.instruction.modifiers else {4, 8, 16}):
        site.invalid(f"cp-size must be {'16' if 'cg' in site.instruction.modifiers else '4, 8 or 16'}")
    destination, source = site.address(0), site.address(1)
    form = CopyForm(site, size)
    given = len(site.operands) - hinted
    ignore = src_size = None
    if given == 4:
        register = site.register(site.operand(3))
        if register is not None and register.bits == 1:
            ignore = site.source(3, "pred")
        else:
            src_size = site.source(3, "u32")
    elif given != 3:
        site.invalid(f"{site.instruction.name} takes two addresses, cp-size, and src-size or ignore-src")

    def step(bundle: Bundle, mask: Mask) -> None:
        lanes = site.active(bundle, mask).copy()
        n_bytes = np.full((bundle.n, WARP_SIZE), size, dtype=np.int64)
        if src_size is not None:
            n_bytes = bundle.rows["u32"][src_size].astype(np.int64)
            wrong = lanes & (n_bytes > size)
            if wrong.any():
                lane = int(np.flatnonzero(wrong)[0])
                raise site.error(
                    InvalidOperand,
                    f"src-size is {int(n_bytes.reshape(-1)[lane])} but cp-size is only {size}",
                    bundle,
                    lane,
                )
        elif ignore is not None:
            n_bytes = np.where(bundle.rows["pred"][ignore], 0, size)
        to, origin = destination.lanes(bundle).copy(), source.lanes(bundle).astype(np.uint64)
        # Wrong addresses are reported here, where the kernel gives them.
        form.read(bundle, origin, n_bytes, lanes)
        for part in form.to_shared.parts(bundle, to, lanes):
            if part.written is not None:
                part.written[part.index] = 0
        for tell in bundle.cohort.listeners.copy_asked:
            tell((form.whole, form.to_shared), bundle, (origin, to), n_bytes, lanes)
        queue = bundle.own(CopyQueue)
        number, queue.issued = queue.issued, queue.issued + 1
        queue.copies.append(LaneCopies(form, to, origin, n_bytes, lanes, queue.committed.copy(), number))

    return step


@instruction("cp.async.commit_group")
def commit_group(site: Site) -> Step:
    """Close a group of all copies that the thread has issued since its last commit.

    Shapes:     each lane has groups of its own; a group may be empty.
    Source:     PTX ISA 9.0, cp.async.commit_group
                (#data-movement-and-conversion-instructions-cp-async-commit-group).
    """

    def step(bundle: Bundle, mask: Mask) -> None:
        bundle.own(CopyQueue).committed[site.active(bundle, mask)] += 1

    return step


@instruction("cp.async.wait_group", "cp.async.wait_all", facts=Facts(waits_for=Pipe.COPIES_OF_THREADS))
def wait_group(site: Site) -> Step:
    """Wait until all of the thread's groups but the newest N are complete.

    Shapes:     each lane waits for its own groups.
    Units:      N counts committed groups; wait_all waits for all copies, committed or not.
    Simplified: the copies take place here. Other threads see them after a barrier, as on the hardware.
    Source:     PTX ISA 9.0, cp.async.wait_group, cp.async.wait_all
                (#data-movement-and-conversion-instructions-cp-async-wait-group).
    """
    everything = "wait_all" in site.instruction.modifiers
    newest = 0 if everything else site.constant(0)
    if newest is None or newest < 0:
        site.invalid("cp.async.wait_group takes the number of groups as a constant, 0 or more")

    def step(bundle: Bundle, mask: Mask) -> None:
        queue = bundle.own(CopyQueue)
        before = None if everything else queue.committed - newest
        queue.complete(bundle, site.active(bundle, mask), before)

    return step
