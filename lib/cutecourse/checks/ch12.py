"""Checks of the exercises of chapter 12, UMMA with TMA and multicast."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from cutecourse.checks.compare import (
    AGAIN,
    ELECTS,
    TOO_EARLY,
    lines_named,
    on_many,
    repaired_text,
    returned,
    same_array,
    same_int,
    same_outputs,
    same_sequence,
)
from cutecourse.checks.cpp import WITHOUT_NVCC, compile_cpp, has_nvcc
from cutecourse.checks.registry import exercise
from cutecourse.checks.result import WrongAnswer
from cutecourse.emulator import prove
from cutecourse.errors import CourseError
from cutecourse.protocols import Protocol
from cutecourse.tma import create_tma_multicast_mask, make_cluster_layout_vmnk

SHAPES = [(cm, cn) for cm in (1, 2, 4, 8, 16) for cn in (1, 2, 4, 8, 16) if cm * cn <= 16]


@exercise(
    "12.1",
    "Another cluster",
    hints=[
        (
            "The bytes that land do not depend on the cluster. The bytes that a CTA loads do: four CTAs along N share A, "
            "and two along M share B."
        ),
        "Count the CTAs that share A or B with this one. The CTA itself is in its row and in its column.",
    ],
)
def check_counts(answer: object) -> str:
    """Bytes and arrivals of a 2x4 cluster."""
    a, b = 128 * 64 * 2, 192 * 64 * 2
    landing, own = a + b, a // 4 + b // 2
    same_sequence(
        answer,
        (landing, own, 5),
        meaning="bytes expected, bytes loaded, arrivals",
        tell=False,
        mistakes={
            (
                own,
                own,
                5,
            ): "A barrier counts all bytes that land in its CTA, also the neighbours' slices. You counted what the CTA loads.",
            (
                landing,
                landing,
                5,
            ): "Your second number is what lands. A CTA loads only its own slices, and its neighbours send it the rest.",
            (
                landing,
                a // 2 + b // 4,
                5,
            ): "Your slices are swapped. The CTAs along N share A, and those along M share B.",
            (
                landing,
                landing // 8,
                5,
            ): "You divided both tiles among the eight CTAs of the cluster. Four CTAs share A's tile, and two share B's.",
            (
                landing // 2,
                own // 2,
                5,
            ): "You counted elements. A half has two bytes.",
            (
                landing,
                own,
                4,
            ): "You counted the CTAs that share A. Those that share B read this CTA's slices too.",
            (
                landing,
                own,
                6,
            ): "You counted the CTA twice: it is in its row and in its column, but its commit arrives once.",
            (
                landing,
                own,
                8,
            ): "You counted the whole cluster. Count only the CTAs to which this one sends A or B.",
            (
                landing,
                own,
                1,
            ): "With one arrival a CTA goes on as soon as a single receiver has read its stage.",
        },
    )
    return "The first number depends on the tile, the second on the tile and the cluster, the third on the cluster alone."


@exercise(
    "12.2",
    "The commit's mask by hand",
    hints=[
        "The commit tells the CTAs that write into this CTA's stage: its row sends A, its column sends B.",
        "Ranks count M first. The ranks of a column follow each other; those of a row are cluster_m apart.",
    ],
)
def check_commit_mask(answer: object) -> str:
    """The commit's mask, for all clusters of at most 16 CTAs."""
    cases = [(m, n, cm, cn) for cm, cn in SHAPES for m in range(cm) for n in range(cn)]

    def along(mode: int, m: int, n: int, cm: int, cn: int) -> int:
        return create_tma_multicast_mask(make_cluster_layout_vmnk((cm, cn, 1), 1), (0, m, n, 0), mode)

    def right(*case: int) -> int:
        return along(2, *case) | along(1, *case)

    given = returned(answer, cases, what="the mask of the commit")
    mistakes = {
        "Those are the CTAs that share A. The CTAs of the column write into this CTA's stage of B, and they wait too.": [
            along(2, *case) for case in cases
        ],
        "Those are the CTAs that share B. The CTAs of the row write into this CTA's stage of A, and they wait too.": [
            along(1, *case) for case in cases
        ],
        "That tells the whole cluster. Barriers that do not count this CTA would end their phases too early.": [
            (1 << cm * cn) - 1 for _, _, cm, cn in cases
        ],
        "The CTA itself is missing. It writes its own stage too, and its barrier counts its own commit.": [
            right(*case) & ~(1 << (case[0] + case[1] * case[2])) for case in cases
        ],
        "That counts ranks along N first. Ranks count along M first: the rank of (m, n) is m + n * cluster_m.": [
            sum(1 << m * cn + j for j in range(cn)) | sum(1 << i * cn + n for i in range(cm))
            for m, n, cm, cn in cases
        ],
        "The CTA's row and column have been added as numbers, and its own bit, which is in both, carried. Use |.": [
            along(2, *case) + along(1, *case) for case in cases
        ],
    }
    for words, wrong in mistakes.items():
        if given == wrong:
            raise WrongAnswer(words, where="commit_mask(1, 2, 4, 4)")
    on_many(answer, cases, right, what="the mask of the commit", show="{:#06x}".format)
    return "It has cluster_m + cluster_n - 1 bits: the count of mma_barrier."


@exercise(
    "12.3",
    "The wait moves to the front",
    hints=[
        "Before k-tile k is loaded, the MMAs of k-tile k - 1 must be complete. Which phase of mma_barrier do they end?",
        "A fresh barrier is in phase 0, and a wait for parity 1 passes there.",
    ],
)
def check_parity_before(answer: object) -> str:
    """The parity of the phase before, for eight k-tiles."""
    cases = [(k,) for k in range(8)]
    given = returned(answer, cases, what="the parity before k-tile k")
    if given == [k % 2 for (k,) in cases]:
        raise WrongAnswer(
            "Then k-tile 0 waits for a phase that its own MMAs must end, and nobody gets any further.",
            where="parity_before(0)",
        )
    if given in ([0] * 8, [1] * 8):
        raise WrongAnswer(
            "The parities of a barrier's phases alternate. With a fixed parity, every second wait is for the wrong phase.",
            where="parity_before(1)",
        )
    strange = next((k for k, one in enumerate(given) if one not in (0, 1)), None)
    if strange is not None:
        raise WrongAnswer("A parity is 0 or 1.", where=f"parity_before({strange})", got=str(given[strange]))
    on_many(answer, cases, lambda k: k % 2 ^ 1, what="the parity before k-tile k")
    return "Every producer waits like this: for the phase before the current one."


@exercise(
    "12.4",
    "Which cluster?",
    hints=[
        "Bytes per flop are 1 / (cluster_n * tile_n) + 1 / (cluster_m * tile_m).",
        "The cluster acts as one large tile. Of two tiles with the same area, which one fetches less: a long one or a square?",
    ],
)
def check_best_cluster(answer: object) -> str:
    """The cluster nearest to a square tile."""

    def bytes_per_flop(tile_m: int, tile_n: int, cm: int, cn: int) -> Fraction:
        return Fraction(1, cn * tile_n) + Fraction(1, cm * tile_m)

    def best(tile_m: int, tile_n: int, ctas: int) -> list[tuple[int, int]]:
        shapes = [(cm, cn) for cm, cn in SHAPES if cm * cn == ctas]
        least = min(bytes_per_flop(tile_m, tile_n, *shape) for shape in shapes)
        return [shape for shape in shapes if bytes_per_flop(tile_m, tile_n, *shape) == least]

    tiles = [(tile_m, tile_n) for tile_m in (64, 128) for tile_n in (32, 64, 96, 128, 192, 256)]
    cases = [(*tile, ctas) for tile in tiles for ctas in (2, 4, 8, 16) if len(best(*tile, ctas)) == 1]

    def right(*case: int) -> tuple[int, int]:
        return best(*case)[0]

    given = returned(answer, cases, what="(cluster_m, cluster_n)")
    if given == [right(*case)[::-1] for case in cases]:
        raise WrongAnswer(
            "That is (N, M), or the operands are swapped. CTAs along M share B, and B's tile has tile_n rows.",
            where="best_cluster(128, 256, 8)",
        )
    if given in ([(1, ctas) for *_, ctas in cases], [(ctas, 1) for *_, ctas in cases]):
        raise WrongAnswer(
            "In a row all CTAs share A, and nobody shares B; in a column it is the other way round. One operand is fetched "
            "as often as without a cluster.",
            where="best_cluster(128, 256, 8)",
        )
    squarest = [(1 << (ctas.bit_length() - 1) // 2, 1 << ctas.bit_length() // 2) for *_, ctas in cases]
    if given in (squarest, [shape[::-1] for shape in squarest]):
        raise WrongAnswer(
            "You made the cluster itself as square as possible. What has to be near a square is the part of C that the whole "
            "cluster computes: cluster_m * tile_m rows and cluster_n * tile_n columns.",
            where="best_cluster(128, 256, 8)",
        )
    longest = [
        max((s for s in SHAPES if s[0] * s[1] == ctas), key=lambda s: bytes_per_flop(tile_m, tile_n, *s))
        for tile_m, tile_n, ctas in cases
    ]
    if given == longest:
        raise WrongAnswer(
            "That cluster fetches the most bytes, not the fewest.", where="best_cluster(128, 256, 8)"
        )
    on_many(answer, cases, right, what="(cluster_m, cluster_n)")
    return "The best cluster is as close to a square as the tiles allow: 4x2 for tiles of 128x256."


@exercise(
    "12.5",
    "A bug to find",
    hints=[
        "The report says how many arrivals came, and from which CTAs. Are these all that should come?",
        "Which line says how many arrivals mma_barrier counts?",
    ],
)
def check_fixed(answer: object) -> str:
    """The count of mma_barrier in a file of the kernel."""
    import numpy as np

    from cutecourse.kernels import broken_text, twin, umma_tma_broken
    from cutecourse.kernels.spec import SpecError

    broken = umma_tma_broken.small().with_text(broken_text("12.5"))
    text = repaired_text(answer, "12.5", twin(broken).ptx)
    try:
        spec = umma_tma_broken.small().with_text(text)
    except (SpecError, SyntaxError) as error:
        raise WrongAnswer(f"The text cannot be used: {error}") from error
    rng = np.random.default_rng(5)
    a: Any = rng.integers(-4, 5, (256, 256)).astype(np.float16)
    b: Any = rng.integers(-4, 5, (512, 256)).astype(np.float16)
    same_outputs(
        spec,
        {"a": a, "b": b, "c": np.full((256, 512), np.nan, np.float32)},
        {"c": a.astype(np.float32) @ b.astype(np.float32).T},
        emulator_first=True,
        names=NAMES_OF_ONE_STAGE,
        reports={
            AGAIN: "The barrier ends its phase before all receivers have read the stage. Which commits must it count?",
            TOO_EARLY: "An MMA reads a stage that is not full. The wait on tma_barrier was right before.",
            "BarrierCountError": "Now the barrier gets more arrivals than it counts. Who commits to it?",
            "of 4 arrivals": "mma_barrier still counts four arrivals.",
            "no warp can go on": "Now a warp waits for a phase that never ends.",
        },
    )
    return (
        "The count now agrees with the commits that come. A CTA sends to 2 + 2 - 1 CTAs, so three commits are enough: a "
        "fourth would only make it wait longer."
    )


@exercise(
    "12.6",
    "A kernel to write: two stages for a column",
    hints=[
        "K-tiles 0 and 1 find their stages empty. K-tile 2 waits for the commits of k-tile 0, from both CTAs.",
        "turn = k // 2. The load side waits for turn % 2 ^ 1, the MMA side for turn % 2.",
        "Both CTAs write into a stage of B, so a stage's commit goes to both: mask_b. `finished` belongs to this CTA alone.",
    ],
)
def check_column_of_two(answer: object) -> str:
    """A main loop with two stages for a cluster of 2x1."""
    import numpy as np

    rng = np.random.default_rng(6)
    a: Any = rng.integers(-4, 5, (256, 192)).astype(np.float16)
    b: Any = rng.integers(-4, 5, (128, 192)).astype(np.float16)
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    same_outputs(
        answer,
        {"a": a, "b": b, "c": np.full((256, 128), np.nan, np.float32)},
        {"c": wide_a @ wide_b.T},
        emulator_first=True,
        names=NAMES_OF_TWO_STAGES,
        mistakes={
            "c": [
                (
                    wide_a[:, 176:] @ wide_b[:, 176:].T,
                    "C has only the last 16 columns of K: each MMA has overwritten C, and none has added to it.",
                ),
                (
                    wide_a[:, 128:] @ wide_b[:, 128:].T,
                    "C has only the last k-tile: ACCUMULATE is set to False in every k-tile.",
                ),
            ]
        },
        reports={
            "enable-input-d": "The first MMA adds to columns that nobody has written.",
            "elect.sync": ELECTS,
            "would be loaded from column": "The epilogue reads C before the MMAs are complete: do all warps wait for "
            "`finished`, and does a commit to it follow the last k-tile?",
            re.compile(
                r"TransactionBytesError[^\n]*full"
            ): "The bytes announced and the bytes that land do not agree: "
            "are all bytes announced? Add up what lands in one CTA for one k-tile.",
            re.compile(
                r"mbarrier empty\[\d\] [^\n]*lacks 1 of 2"
            ): "A CTA waits for its neighbour's commit, which does "
            "not arrive here. Which CTAs must hear that a stage has been read?",
            re.compile(
                r"mbarrier empty\[\d\] [^\n]*lacks 2 of 2"
            ): "A load waits for a phase that only its own k-tile "
            "can end. Which parity passes on a fresh barrier?",
            "BarrierCountError": "A barrier gets more arrivals in a phase than it counts: how many threads announce, and "
            "how many commit?",
            AGAIN: "A stage is loaded again before both CTAs have read it.",
            TOO_EARLY: "An MMA reads a stage that is not full: are all bytes announced, and does the wait name the phase "
            "that this k-tile's bytes end?",
        },
    )
    _two_stages(answer, a=a, b=b, c=np.full((256, 128), np.nan, np.float32))
    return "No other CTA needs this CTA's A, so the row adds no CTA: the commit's mask is B's, and empty counts two."


def _two_stages(answer: Any, **arrays: Any) -> None:
    """Refuse a kernel of 12.6 that uses other stages, or whose loads always wait for the MMAs just issued."""
    from cutecourse.runtime import run

    overlapped: set[int] = set()
    for seed in range(4):
        try:
            trace = run(
                answer, device="emulator", seed=seed, trace=True, names=NAMES_OF_TWO_STAGES, **arrays
            ).trace
        except CourseError as error:
            raise WrongAnswer(
                f"When its warps run in another order, the kernel does not run to its end: {type(error).__name__}: {error}"
                f"{lines_named(answer, error)}"
            ) from error
        assert trace is not None  # it was asked for
        loads = trace.of("tma.issue")
        for load in loads:
            k, (start, half) = load["coords"][0] // 64, {"a": (0, 1), "b": (32768, 2)}[load["tensor"]]
            right = start + k % 2 * 16384 + (load.rank * 8192 if half == 2 else 0)
            if load["destinations"][0]["offset"] != right:
                raise WrongAnswer(
                    f"K-tile {k} is loaded into the wrong place: it uses stage k % 2.",
                    where=f"the load of {load['tensor']} by CTA {load.rank}",
                    got=f"byte {load['destinations'][0]['offset']} of shared memory",
                )
        done = {event["issue"]: event.time for event in trace.of("mma.complete")}
        for rank in (0, 1):
            mmas = [done[event.index] for event in trace.of("mma.issue") if event.rank == rank]
            for k in (1, 2):
                begins = min(load.time for load in loads if (load.rank, load["coords"][0]) == (rank, 64 * k))
                if begins < max(mmas[4 * k - 4 : 4 * k]):
                    overlapped.add(k)
    for k in {1, 2} - overlapped:
        raise WrongAnswer(
            f"In four runs k-tile {k} was loaded only after the MMAs of k-tile {k - 1} were complete. With two stages its "
            "load has to wait for the k-tile that used the same stage, two k-tiles before."
        )


# Where the parts of the kernels' shared memory lie, so that the reports name them.
NAMES_OF_ONE_STAGE = {
    "sA": (0, 16384),
    "sB": (16384, 32768),
    "tma_barrier": (49152, 8),
    "mma_barrier": (49160, 8),
}
NAMES_OF_TWO_STAGES = {
    "sA": (0, 32768),
    "sB": (32768, 32768),
    "full[0]": (65536, 8),
    "full[1]": (65544, 8),
    "empty[0]": (65552, 8),
    "empty[1]": (65560, 8),
    "finished": (65568, 8),
}

_GAP = "  // YOUR MAIN LOOP\n"
# Calls without which the loop of 12.7 cannot be right, and what to say where one is missing.
_CALLS = {
    "set_barrier_transaction_bytes": "Nobody announces the bytes, so tma_barrier never ends a phase: "
    "set_barrier_transaction_bytes is missing.",
    "tma_A.with(": "Nobody loads A: copy takes the atom with its barrier, tma_A.with(shared.tma_barrier).",
    "tma_B.with(": "Nobody loads B: copy takes the atom with its barrier, tma_B.with(shared.tma_barrier).",
    "elect_one_sync": "Every lane would announce the bytes and load: one thread of warp 0 must be elected.",
    "wait_barrier(shared.tma_barrier": "Nobody waits until the bytes are there: a wait on tma_barrier is missing.",
    "gemm(": "No MMA is issued: gemm is missing.",
    "ScaleOut::Zero": "The first MMA must not add to what tensor memory holds: accumulate_ starts with "
    "UMMA::ScaleOut::Zero.",
    "ScaleOut::One": "Every MMA overwrites the sum: after the first, accumulate_ must be UMMA::ScaleOut::One.",
    "umma_arrive(": "Nobody arrives at mma_barrier: the commit, cutlass::arch::umma_arrive, is missing.",
    "wait_barrier(shared.mma_barrier": "Nobody waits until the MMAs have read the stage: a wait on mma_barrier is "
    "missing.",
}


@exercise(
    "12.7",
    "A main loop in C++",
    hints=[
        "The loop has the chapter's order: announce, load A and B, wait, four gemm, commit, wait.",
        "The bytes are those of 128 rows of A and 64 rows of B, 64 columns of 2 bytes each. Both waits take k % 2.",
    ],
)
def check_cpp_loop(answer: object) -> str:
    """A main loop in CuTe C++, compiled where nvcc is installed."""
    if not isinstance(answer, str):
        raise WrongAnswer("The answer must be C++ text.", expected="a str", got=type(answer).__name__)
    code = re.sub(r"\s", "", re.sub(r"//[^\n]*|/\*.*?\*/", "", answer, flags=re.DOTALL))
    compiles = has_nvcc()
    try:
        for call, words in _CALLS.items():
            if re.sub(r"\s", "", call) not in code:
                raise WrongAnswer(words)
        if "using" not in code and re.search(r"(?<!cutlass::arch::)\bumma_arrive\(", code):
            raise WrongAnswer(
                "umma_arrive stands in cutlass::arch, and the file opens the namespace cute only: write "
                "cutlass::arch::umma_arrive."
            )
        if not compiles:
            _read_cpp_loop(code)
    except WrongAnswer as wrong:
        if compiles:
            raise
        raise WrongAnswer(f"{wrong.message}\n{WITHOUT_NVCC}", where=wrong.where, got=wrong.got) from wrong
    if compiles:
        _run_cpp_loop(answer)
    # tests/notebooks/sanitize.cfg takes either sentence for the other: a recording comes from one machine.
    if compiles:
        return "nvcc compiled the loop, and its PTX gave the right product on the emulator."
    return (
        "As far as reading can tell: nvcc is not installed here, so the check compared the calls, their order, the bytes "
        "and the parities, and compiled nothing."
    )


# The order of the chapter's loop: calls in one row may change places.
_ORDER = (
    ("set_barrier_transaction_bytes(",),
    ("tma_A.with(", "tma_B.with("),
    ("wait_barrier(shared.tma_barrier",),
    ("gemm(",),
    ("umma_arrive(",),
    ("wait_barrier(shared.mma_barrier",),
)


def _read_cpp_loop(code: str) -> None:
    """Compare a loop of 12.7, without comments and whitespace, with the chapter's loop: all that needs no compiler."""
    open_: list[str] = []
    for at, char in enumerate(code):
        if char in "([{":
            open_.append(char)
        elif char in ")]}" and (not open_ or open_.pop() + char not in ("()", "[]", "{}")):
            raise WrongAnswer(f"The bracket {char} closes nothing.", got=code[max(0, at - 40) : at + 1])
    if open_:
        raise WrongAnswer(f"A bracket {open_[-1]} is never closed.")
    before = -1
    for row in _ORDER:
        places = [code.index(call) for call in row]
        if min(places) < before:
            raise WrongAnswer(
                f"{row[0].rstrip('(')} comes too early. The chapter's order is: announce, load A and B, wait, multiply, "
                "commit, wait."
            )
        before = max(places)
    loop = re.search(r"for\((?:int|unsigned|auto|uint32_t|size_t)(\w+)=0;", code)
    zero = re.compile(r"[;{})]tiled_mma\.accumulate_=UMMA::ScaleOut::Zero;").search(
        code, loop.end() if loop else 0
    )
    if (
        loop is not None
        and zero is not None
        and not re.search(r"==0|0==|if\(!", code[loop.end() : zero.start()])
    ):
        raise WrongAnswer(
            "Each k-tile overwrites the sum: ScaleOut::Zero belongs before the loop over the k-tiles."
        )
    for value in _arguments(code, "set_barrier_transaction_bytes(shared.tma_barrier"):
        found = _number(value.replace("sizeof(half_t)", "2"))
        if found not in (None, (128 + 64) * 64 * 2):
            raise WrongAnswer(
                "The bytes announced and the bytes that land do not agree.",
                where="set_barrier_transaction_bytes",
                got=f"{value}, which is {found}",
            )
    for barrier in ("tma_barrier", "mma_barrier"):
        for value in _arguments(code, f"wait_barrier(shared.{barrier}"):
            if loop is None:
                continue
            parities = [_number(re.sub(rf"\b{loop[1]}\b", str(k), value)) for k in range(3)]
            if None not in parities and parities != [0, 1, 0]:
                raise WrongAnswer(
                    "That wait is for a phase that this k-tile does not end.",
                    where=f"wait_barrier(shared.{barrier}, ...)",
                    got=value,
                )


def _arguments(code: str, call: str) -> list[str]:
    """What follows the first argument of each such call, as text."""
    found = []
    for match in re.finditer(re.escape(call) + ",", code):
        depth, end = 1, match.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(code[end], 0)
            end += 1
        found.append(code[match.end() : end - 1])
    return found


def _number(text: str) -> int | None:
    """The value of an expression of whole numbers alone; None for any other text."""
    if re.fullmatch(r"[\d+\-*%&^|()]+", text) is None or "**" in text:
        return None
    try:
        return int(eval(text, {"__builtins__": {}}))
    except (SyntaxError, ArithmeticError, ValueError, TypeError):
        return None


# What the emulator's reports mean for the loop of 12.7; the first that is found counts.
_CPP_REPORTS: dict[str | re.Pattern[str], str] = {
    "enable-input-d": "The first MMA adds to columns that nobody has written.",
    "TransactionBytesError": "The bytes announced and the bytes that land do not agree.",
    "BarrierCountError": "A barrier gets more arrivals in a phase than it counts: how many threads announce?",
    AGAIN: "The stage is loaded again before the MMAs have read it.",
    TOO_EARLY: "An MMA reads the stage before all its bytes are there: how many bytes are announced, and which parity does the "
    "wait take?",
}


def _run_cpp_loop(loop: str) -> None:
    """Compile the kernel of 12.7 with this loop, run its PTX on the emulator and compare."""
    import numpy as np

    from cutecourse import emulator
    from cutecourse.display import source_file
    from cutecourse.kernels import TensorMapSpec
    from cutecourse.layout import parse
    from cutecourse.runtime import emulator_tensor_map

    ptx = compile_cpp(source_file("exercise_12_7.cu").replace(_GAP, f"{loop}\n"))
    rng = np.random.default_rng(7)
    maps, wide = [], []
    for name, rows in (("a", 128), ("b", 64)):
        array: Any = rng.integers(-4, 5, (rows, 192)).astype(np.float16)
        tile = parse(f"S<3,4,3> o 0 o (({rows},16),1,4):((64,1),0,16)")
        map_ = TensorMapSpec(name, "f16", (rows, 192), (192, 1), smem_layout=tile, cta_tiler=(rows, 64))
        maps.append(
            (emulator_tensor_map(map_.encoding, array),)
        )  # the atom is a struct that begins with the map
        wide.append(array.astype(np.float32))
    c = np.full((128, 64), np.nan, np.float32)
    try:
        emulator.launch(
            ptx,
            grid=(1, 1, 1),
            block=(128, 1, 1),
            dynamic_smem=(128 + 64) * 64 * 2 + 2 * 8 + 4,
            args=[*maps, c],
            names={
                "sA": (0, 16384),
                "sB": (16384, 8192),
                "tma_barrier": (24576, 8),
                "mma_barrier": (24584, 8),
            },
        )
    except CourseError as error:
        report = f"{type(error).__name__}: {error}"
        words = next(
            (said for part, said in _CPP_REPORTS.items() if re.search(part, report)),
            "The kernel did not run to its end.",
        )
        raise WrongAnswer(f"{words}\n{report}") from error
    same_array(c, wide[0] @ wide[1].T, name="c")


@exercise(
    "12.8",
    "The smallest run that shows it",
    hints=[
        "Write down both parities for k = 0, 1, 2, ... Where do they differ first?",
        "k starts at 0, and the question is for the number of k-tiles.",
    ],
)
def check_smallest_run(answer: object) -> str:
    """The first k-tile whose parity differs, counted from 1."""
    first = next(k for k in range(12) if k // 3 % 2 != k // 4 % 2)
    same_int(
        answer,
        first + 1,
        meaning="the least number of k-tiles with which an order goes wrong",
        mistakes={
            first: f"The parities differ first at k = {first}. Three k-tiles use each stage once, with parity 0.",
            first + 2: "You counted from 1 and k from 0: the stage's second use is already wrong.",
        },
        otherwise="Compare `k // 3 % 2` with `k // 4 % 2`, k-tile by k-tile.",
    )
    return "A parity is wrong only from the second turn on, so a test needs more k-tiles than stages."


_ROLES = ("loader", "converter", "storer")
_USES = (("write 0",), ("read 0", "write 1"), ("read 1",))


def _refuse_protocol(protocol: object, k_tiles: int) -> Protocol:
    """The answer as a protocol whose threads use the words of the specification."""
    where = f"roles({k_tiles})"
    if not isinstance(protocol, Protocol):
        raise WrongAnswer("Return a Protocol.", where=where, got=type(protocol).__name__)
    if len(protocol.threads) != len(_ROLES):
        raise WrongAnswer(
            "The specification has three threads.", where=where, got=f"{len(protocol.threads)} threads"
        )
    for name, actions, uses in zip(_ROLES, protocol.threads, _USES, strict=True):
        found = [f"{one[0]} {one[1]}" for one in actions if one[0] in {"read", "write"}]
        if found != [*uses] * k_tiles:
            raise WrongAnswer(
                f"The {name} uses its words in another order, or not once in each k-tile.",
                where=where,
                expected=", ".join(uses) + " in each k-tile",
                got=", ".join(found[:6]) or "no use of a word",
            )
    if any(count != 1 for count in protocol.counts):
        raise WrongAnswer("Each barrier counts one arrival.", where=where, got=str(protocol.counts))
    return protocol


@exercise(
    "12.9",
    "Three roles, proved",
    hints=[
        "Each word needs two barriers: one says that it is full, the other one that it is empty.",
        "The converter is a consumer of word 0 and a producer of word 1. Who waits with the other parity?",
    ],
)
def check_roles(answer: object) -> str:
    """All states of the answer for 1 to 5 k-tiles, then the proof of its PTX."""
    for k_tiles in range(1, 6):
        (given,) = returned(answer, [(k_tiles,)], what="the protocol")
        protocol, where = _refuse_protocol(given, k_tiles), f"roles({k_tiles})"
        for state in protocol.races[:1]:
            words = [one[1] for one in protocol.following(state) if one and one[0] in {"read", "write"}]
            word = next(one for one in words if words.count(one) > 1)
            raise WrongAnswer(
                f"Two threads can be about to use word {word} at once, one of them to write it.",
                where=where,
                got=f"after {state.positions} actions of the three threads",
            )
        for state in protocol.deadlocks[:1]:
            raise WrongAnswer(
                "There is an order after which nobody can go on.",
                where=where,
                got=f"after {state.positions} actions of the three threads",
            )
        uses = [
            tuple(
                sum(one[0] in {"read", "write"} for one in actions[:at])
                for actions, at in zip(protocol.threads, state.positions, strict=True)
            )
            for state in protocol.states
        ]
        if k_tiles > 1 and (2, 1, 0) not in uses:
            raise WrongAnswer(
                "The loader waits for more than it needs: it may write word 0 again as soon as the converter has read it.",
                where=where,
            )
        if k_tiles > 1 and (2, 3, 0) not in uses:
            raise WrongAnswer(
                "The converter waits for more than it needs: it may read the next word 0 before the storer has read word 1.",
                where=where,
            )
        proof = prove(**protocol.launch)
        if not proof.proved:
            raise WrongAnswer("The protocol's PTX is not proved.", where=where, got=str(proof))
    return "Proved for 1 to 5 k-tiles: no order of the three threads goes wrong."


@exercise(
    "12.10",
    "A lapped phase in a trace",
    hints=[
        "The watcher's last line is a wait that passed. Its next one is for the other stage.",
        "A wait for phase n can be answered until phase n + 1 is complete. In which line does that happen?",
    ],
)
def check_lapped(answer: object) -> str:
    """The watcher means phase 0 of full[1], which goes on to phase 2 at step 18."""
    same_sequence(
        answer,
        (1, 0, 2, 18),
        meaning="stage, phase meant, phase at the end, step",
        tell=False,
        mistakes={
            (0, 0, 3, 12): "That wait passes at the end, two phases late and by luck: full[0] is in phase 3, "
            "so parity 0 is over. Look at the wait after it.",
            (1, 0, 2, 6): "That step ends the phase that the watcher means. While the barrier is in phase 1, "
            "its wait still passes. Look for the end of phase 1.",
        },
    )
    return (
        "The watcher's first wait was two phases late as well, and passed by luck. Only the second one hangs."
    )
