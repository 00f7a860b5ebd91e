"""All rules, in the order of the table, and what was changed in their expected sets since they were fixed."""

from __future__ import annotations

from benchmarks.mutation import rules_barriers, rules_copies, rules_newer, rules_tensor, rules_wgmma
from benchmarks.mutation.rule import Rule

RULES: tuple[Rule, ...] = (
    *rules_barriers.RULES,
    *rules_copies.RULES,
    *rules_tensor.RULES,
    *rules_wgmma.RULES,
    *rules_newer.RULES,
)

REVISIONS: tuple[tuple[str, str, str], ...] = (
    (
        "barrier of data dropped, warp barrier dropped",
        "LanesNotOrdered",
        (
            "two lanes of a warp with no barrier between them: the check came on 2026-11-26, after the rules."
            " In a block of one warp a block's barrier orders nothing but lanes"
        ),
    ),
    (
        "idesc, strides, swizzles, starts, base offset; tensor maps' swizzles",
        "OperandReadTwice, UnreadLoad, and reads outside the tile for each of them",
        (
            "a layout has as many places as the tile has bytes: one that is not the tile's own permutes them"
            " (another layout), or takes some twice (operand read twice), leaves some out (loaded and never"
            " read), or reads others (never written, out of bounds, read before its wait). The first sets"
            " held only what was thought of for each field"
        ),
    ),
    (
        "the barrier beside: wait, arrive, expect_tx, load, commit",
        "AddressError",
        "out of bounds: 8 bytes behind the last barrier ends shared memory",
    ),
    (
        "arrive twice, commit twice, all lanes arrive, all lanes commit, commit mask shifted",
        "DeadlockError, BudgetExceeded",
        "deadlock: a waiter that comes when two phases are over waits for a third, which nobody completes",
    ),
    (
        "a mask without its lowest bit",
        "InvalidOperand",
        "invalid operand: a mask of one CTA becomes 0, which the instruction does not take",
    ),
    (
        "load of a pair: .cta_group::2 dropped",
        "InvalidOperand",
        "invalid operand: without it the barrier has to be of the CTA that is written to",
    ),
    (
        "all lanes load",
        "UninitializedRead",
        "never written: since the hazards have a table, its definition holds what a copy has still to write",
    ),
    (
        "all lanes multiply",
        "OverwrittenSource, StageReusedEarly, TensorMemoryWriteUnderWay",
        "a commit tracks its own thread's operations: those of the other lanes have still to read and write",
    ),
    (
        "thread's store one vector further on",
        "NoBarrierError",
        "no mbarrier: its definition holds one that something was stored over",
    ),
    (
        "barrier of the CTA: a warp fewer",
        "TensorMemoryFreed",
        "it is made at barriers before a free as well",
    ),
    (
        "commit before the last MMA",
        "ReadBeforeWait",
        "read before its wait: the early reuse, met by the MMA that reads bytes of the copy after its own",
    ),
    (
        "map: box doubled, outer",
        "SharedMemoryRace",
        "race: the rows too many lie over what other CTAs' copies write",
    ),
    (
        "wgmma: one operand's descriptor for the other",
        "reads outside the tile",
        "as for tcgen05: more rows are read than the other operand has",
    ),
    (
        "all lanes multiply",
        "ReductionMismatch",
        "another k: as its check was written, it holds a sum that has the same product twice",
    ),
    (
        "dealloc before the loads",
        "TensorMemoryLoadUnderWay",
        "load under way: the same free, met by another warp's load that stands before it",
    ),
    (
        "A's descriptor for B, B's for A; of wgmma as well",
        "ReductionMismatch",
        "another k: since its rule for them was written, the definition holds A's own tensor in B's place",
    ),
    ("idesc: D in f16", "InvalidOperand", "invalid operand: bf16 has no sums in f16"),
    (
        "barrier of tensor memory's data dropped",
        "a rule of its own; it was one of shared memory's data",
        "what threads store to tensor memory is no use of shared memory",
    ),
    (
        "bar.sync in a CTA of one warp, bar.warp.sync",
        "not excluded any more",
        (
            "the hardware promises nothing for lanes that have parted; that the hazards are between warps is"
            " the emulator's limit and no equivalence"
        ),
    ),
    (
        "idesc: A in the other type, idesc: B in the other type",
        "OperandTypeMismatch",
        "another type: the hazard is new; it is read as another type than the tensor map's",
    ),
    (
        "row coordinate + a tile",
        "OperandOutsideTensor",
        "fill multiplied: the hazard is new; of the last row of CTAs the tile behind is none of the tensor",
    ),
    (
        "wait dropped, count - 1",
        "TensorMemoryLoadUnderWay",
        "load under way: an accumulator that is written over is what a stage that is reused early is",
    ),
    (
        "ld column + 16",
        "TensorMemoryWriteUnderWay, TensorMemoryLoadUnderWay",
        "read before written, load under way: the columns beside can be another accumulator, in use",
    ),
    (
        "map: swizzle of 64 bytes",
        "StageReusedEarly, SharedMemoryRace",
        "stage reused early: rows of 32 bytes lie 64 bytes apart then, over the next stage",
    ),
    (
        "scale factors: four rules; k coordinate + a tile, row coordinate + a tile, coordinates swapped",
        "ScaleMismatch",
        "another scale: the hazard is new; the factors are another's, or come from outside their tensor",
    ),
    (
        "coordinates swapped",
        "AlignmentError",
        "misaligned: its definition holds a box that begins between two chunks of its innermost dimension",
    ),
)
"""Rules, what changed in their expected sets since 2026-11-21 22:30 UTC, and the definition that asks for it.

All but seven were made between 22:35 and 22:45, after a first run in whose table the reports were seen; the
checks for races, waits, early reuse and unread sums had not come then. Three followed at 22:50, after half of
a second run: the commit before the last MMA, the doubled box, one operand's descriptor for the other. Two at
23:00: all lanes multiply, dealloc before the loads. The last two came at 23:15 and 23:25 with hazards that
were made for them, when their mutants had been seen to be silent: another type, fill multiplied.

Two more came on 2026-11-26 with the first kernel that has two accumulators, after a run of its mutants in
which these reports were seen, one with the first kernel of rows of 32 bytes, and the last two with kernels of
scale factors, whose mutants had been silent or were refused for their alignment. The same day a tile
became the box's side in "k coordinate + a tile" and "row coordinate + a tile", where it was 64, and mistakes
that nothing but the instruction descriptor could tell were counted apart."""
