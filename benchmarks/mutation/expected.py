"""What reports name which kind of mistake: the words that the rules' expected sets are made of.

Each set follows from what the mistake makes a kernel do and from the hazards' definitions
(emulator.core.hazards, errors). It holds what a report may truthfully say of this mistake, and nothing
that merely may happen later: a set is no list of everything that a broken kernel can end in.
"""

NEVER = frozenset({"DeadlockError", "BudgetExceeded"})
"""A phase never completes. Whoever waits for it waits for good; a loop that polls ends in the budget."""

BYTES_MISSING = frozenset({"TransactionBytesError"})
"""A barrier expects bytes that nobody brings: the deadlock has its cause."""

BYTES_EXTRA = frozenset({"TransactionBytesError", "BarrierCountError", "OpenPhase"})
"""A barrier gets bytes that nobody expects: its count is out of range, its phase never ends, or the block
does with them in it."""

TOO_SOON = frozenset({"ReadBeforeWait", "UninitializedRead", "TensorMemoryWriteUnderWay", "UnfinishedLoad"})
"""Something is used before the asynchronous operation that brings it has arrived. If that operation is not
even issued yet, all there is to see is that nobody has written what is read."""

TOO_MUCH_ROOM = frozenset({"StageReusedEarly", "OverwrittenSource", "BarrierCountError", "SharedMemoryRace"})
"""Somebody who fills memory runs ahead of those who empty it: it is written over while others have still to
read, or arrives more often in a phase than the barrier counts."""

TOO_MUCH_ROOM_IN_TMEM = frozenset({"TensorMemoryLoadUnderWay"})
"""The same where the memory is an accumulator."""

WAITS_TOO_LITTLE = TOO_SOON | TOO_MUCH_ROOM
"""A wait is over before what it is for: the one who waits either reads or fills."""

EXTRA_ARRIVAL = WAITS_TOO_LITTLE - {"UnfinishedLoad"} | NEVER
"""A phase has an arrival too many: it ends early for those who wait for it, its count is out of range, or who
comes when the next phase is over as well waits for one that nobody completes."""

BYTES_BEFORE = frozenset({"ReadBeforeWait", "UninitializedRead", "BarrierCountError", "TransactionBytesError",
                          "OpenPhase", "UnfinishedLoad"})  # fmt: skip
"""A phase ends before its bytes are there. A reader comes too soon, or the bytes come to a phase that does
not expect them: they take the count out of its range, or past 0, so that it never ends."""

SETUP = frozenset({"NoBarrierError", "UninitializedRead", "SharedMemoryRace", "MulticastError"})
"""Others use a barrier that is not initialised yet, or the address of tensor memory that is not there yet; a
copy or a commit of another CTA comes to a barrier that is none."""

THROUGH_SHARED = frozenset({"SharedMemoryRace", "ReadBeforeWait", "StageReusedEarly", "OverwrittenSource",
                            "MissingProxyFence", "UninitializedRead"})  # fmt: skip
"""What one warp wrote to shared memory and another uses, or the reverse, is not in order any more; so are the
bytes of a copy that one thread waited for and the others read, and the fence that was for all threads."""

TEARDOWN = frozenset({"TensorMemoryLoadUnderWay", "TensorMemoryFreed", "ExitedCTAError", "UnfinishedLoad"})
"""Something ends while others still use it: tensor memory is freed before the last load, or a CTA ends while
others of its cluster write to it."""

OUTSIDE_TMEM = frozenset({"TensorMemoryOutside", "UninitializedRead", "UnreadSum"})
"""A place in tensor memory that is not the one meant: outside the allocation, or never written, and the
sums of the right place are not read."""

OTHER_ACCUMULATOR = frozenset({"TensorMemoryWriteUnderWay", "TensorMemoryLoadUnderWay", "UninitializedRead",
                               "UnreadSum"})  # fmt: skip
"""A place in tensor memory that is another tile's: it is being written or loaded, or was never written, and
the sums of the right place are not read."""

OTHERS_FACTORS = frozenset({"ScaleMismatch"})
"""Scale factors of other rows, of the other matrix, or from outside their tensor."""

OUTSIDE_TILE = frozenset({"UninitializedRead", "AddressError", "ReadBeforeWait"})
"""Reads behind the end of a tile: bytes that nobody wrote, that are outside shared memory, or of a stage
whose copy has not been waited for."""

LAYOUT = frozenset({"OperandLayoutMismatch", "OperandReadTwice", "UnreadLoad"}) | OUTSIDE_TILE
"""A tile is read by another layout than it was written by. Either it reads the tile's bytes in another order,
or, as there are as many places as bytes, some bytes twice, some never, or some that are not the tile's."""

THROUGH_TMEM = frozenset({"TensorMemoryWriteUnderWay", "UninitializedRead", "MissingFenceBefore",
                          "MissingFenceAfter"})  # fmt: skip
"""What one warp stored to tensor memory and an MMA reads is not in order any more: it has still to come, or
the fences on both sides of the barrier are on no two sides of anything."""

BESIDE = frozenset({"NoBarrierError", "AddressError"})
"""Behind the last barrier is none, or the end of shared memory."""

ELSEWHERE = frozenset({"UninitializedRead", "AddressError", "AlignmentError", "UnreadLoad",
                       "StageReusedEarly", "ReadBeforeWait", "OperandLayoutMismatch"})  # fmt: skip
"""A copy brings its bytes to another place: what is read was not written, what was written is not read, it
lies over what others use, or its rows are not where the tile's rows are."""
