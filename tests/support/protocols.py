"""Protocols of a few threads that arrive at mbarriers and wait for them, as PTX texts.

A protocol is a pair: the barriers' counts, and for each thread its actions: ("arrive", barrier),
("wait", barrier, parity), ("read", word), ("write", word).
"""

from __future__ import annotations

__all__ = ["SLOW_READER", "WORDS", "text"]

WORDS = 2
"""The words of shared memory that the threads read and write."""

SLOW_READER = (
    [1, 1],
    [
        [("write", 0), ("arrive", 0), ("wait", 1, 0), ("arrive", 0)],
        [("wait", 0, 0), ("arrive", 1)],
        [("wait", 0, 0), ("read", 0)],
    ],
)
"""The third thread takes no part in the hand-over: if it is slow, the phase that it waits for passes by."""


def text(counts, threads):
    """The PTX of a protocol: the first lane of each warp is a thread of it."""
    body = []
    for warp, actions in enumerate(threads):
        body.append(f"WARP{warp}:")
        for number, (what, where, *parity) in enumerate(actions):
            if what == "arrive":
                body.append(f"mbarrier.arrive.shared::cta.b64 _, [bars+{8 * where}];")
            elif what == "wait":
                loop = f"W{warp}_{number}"
                body.append(
                    f"{loop}: mbarrier.try_wait.parity.shared::cta.b64 %p, [bars+{8 * where}], {parity[0]};"
                )
                body.append(f"@!%p bra {loop};")
            elif what == "write":
                body.append(f"st.shared.b32 [data+{4 * where}], {100 * warp + number + 1};")
            else:
                body.append(f"ld.shared.b32 %x, [data+{4 * where}];")
        body.append("bra END;")
    inits = [f"@%first mbarrier.init.shared::cta.b64 [bars+{8 * at}], {n};" for at, n in enumerate(counts)]
    zeros = [f"@%first st.shared.b32 [data+{4 * at}], 0;" for at in range(WORDS)]
    jumps = [f"setp.eq.u32 %q, %warp, {warp};\n@%q bra WARP{warp};" for warp in range(len(threads))]
    return "\n".join(
        [
            f"""
.version 8.6
.target sm_90
.address_size 64
.visible .entry k()
{{
.shared .align 8 .b64 bars[{len(counts)}];
.shared .align 4 .b32 data[{WORDS}];
.reg .b32 %me, %warp, %lane, %x;
.reg .pred %p, %q, %first;
mov.u32 %me, %tid.x;
shr.u32 %warp, %me, 5;
and.b32 %lane, %me, 31;
setp.eq.u32 %first, %me, 0;""",
            *zeros,
            *inits,
            "bar.sync 0;\nsetp.ne.u32 %q, %lane, 0;\n@%q bra END;",
            *jumps,
            *body,
            "END:\nret;\n}",
        ]
    )
