"""One tile of a GEMM with scale factors, in PTX by hand: a thread loads, copies and multiplies."""

from __future__ import annotations

from cutecourse.block_scales import BLOCK_BYTES, scales_shape
from cutecourse.kernels.scaled_ladder import blocks_of, copies, filled, form_of, k_of_tile, mmas, operand
from cutecourse.kernels.spec import LaunchSpec, Tensor

ROWS = COLUMNS = 128


def spec(form: str = "mxf8") -> LaunchSpec:
    """The launch for C (128, 128) = A (128, K) times B (128, K) transposed, with K elements in 128 bytes.

    A and B are bytes, as `block_scales.packed` gives them, and `sfa` and `sfb` are `block_scales.placed`.
    form    the name of a format of `block_scales.FORMATS`. Errors: SpecError for another one.
    """
    known = form_of("scaled_one", form)
    k, blocks = k_of_tile(known), blocks_of(known)
    numbers = {
        "SF_BYTES": BLOCK_BYTES * blocks,
        "SF_COLUMNS": 4 * blocks,
        "COPIES": copies(known, 1, guard=""),
        "MMAS": mmas(known, 1, COLUMNS, guard="", sums="%tmem"),
    }
    return LaunchSpec(
        name="scaled_one",
        module="scaled_one",
        language="ptx",
        ptx=filled("scaled_one", numbers),
        entry="scaled_one",
        target="sm_100a",
        params=(
            operand("a", ROWS, k, known, ROWS),
            operand("b", COLUMNS, k, known, COLUMNS),
            Tensor("sfa", "u8", scales_shape(ROWS, k, known.vector)),
            Tensor("sfb", "u8", scales_shape(COLUMNS, k, known.vector)),
            Tensor("c", "f32", (ROWS, COLUMNS), (COLUMNS, 1)),
        ),
        grid=(1, 1, 1),
        block=(128, 1, 1),
    )


LAUNCH = spec()
FOUR_BITS = spec("nvf4")
