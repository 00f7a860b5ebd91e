"""Checks of the exercises of chapter 15, eight bits and four."""

from __future__ import annotations

import math
from typing import Any

from cutecourse.checks.compare import (
    on_many,
    repaired_text,
    returned,
    same_layout,
    same_outputs,
    same_sequence,
)
from cutecourse.checks.registry import exercise
from cutecourse.checks.result import WrongAnswer


@exercise(
    "15.1",
    "A dot product on paper",
    hints=[
        "22 / 2 is more than 6, 22 / 4 is not. And 3 / 0.5 is 6.",
        "Divide, round to 0, 0.5, 1, 1.5, 2, 3, 4 or 6, multiply and add; the two factors come last.",
    ],
)
def check_by_hand(answer: object) -> str:
    """A dot product of two blocks of four."""
    same_sequence(
        answer,
        (4, 0.5, -5.5),
        meaning="(factor of a, factor of b, dot product)",
        tell=False,
        mistakes={
            (
                4,
                0.5,
                -2.75,
            ): "The two factors are missing: the sum of the products of codes is not the dot product.",
            (4, 0.5, -3.9): "That is the exact product. Round the numbers first.",
            (4, 0.5, -11.0): "Multiply by the product of both factors, 4 * 0.5, once.",
            (
                2,
                0.25,
                -3.0,
            ): "With these factors the largest numbers do not fit: 22 / 2 is 11, and e2m1 ends at 6.",
            (
                8,
                1,
                -4.0,
            ): "These factors are too large by one power of two: 22 / 4 fits, and so does 3 / 0.5.",
        },
    )
    return (
        "Multiply small numbers, add them up, and apply both factors once: that is what the tensor core does."
    )


@exercise(
    "15.2",
    "The factors of B",
    hints=[
        "384 rows are three blocks of rows. 256 elements are 16 factors: four blocks along K.",
        "Blocks follow each other along K first, so a block of rows further on is 4 * 512 bytes away.",
        "All 16 elements that share a factor have the same offset: their mode has stride 0.",
    ],
)
def check_factors_of_b(answer: object) -> str:
    """The layout of the scale factors of 384 rows of 256 elements in blocks of 16."""
    from cutecourse.block_scales import scale_layout

    rows_first = "(((32,4),3),((16,4),4)):(((16,4),512),((0,1),1536))"
    same_layout(
        answer,
        scale_layout(384, 256, 16),
        mistakes={
            rows_first: "Your blocks follow each other along the rows. They do so along K first.",
            "(((32,4),3),((32,4),2)):(((16,4),1024),((0,1),512))": "Those are blocks of 32 elements. NVFP4 has 16.",
            "(((32,4),3),((16,4),4)):(((4,128),2048),((0,1),512))": "Inside a block you put the rows one behind "
            "the other. They are dealt: row 32 stands 4 bytes behind row 0, and row 1 stands 16 behind it.",
            "(((4,32),3),((16,4),4)):(((4,16),2048),((0,1),512))": "Rows 0 to 3 do not share a line of 16 bytes. "
            "Rows 0, 32, 64 and 96 do.",
            "(((32,4),3),((16,4),4)):(((16,4),2048),((1,16),512))": "Sixteen elements share one factor, so all of "
            "them have one offset.",
        },
        tell=False,
    )
    return "A stride of 0 is how a layout says that several coordinates share something."


@exercise(
    "15.3",
    "A bug to find: somebody else's factors",
    hints=[
        "The warning says which bytes of which copy nobody read. Whose factors are these?",
        "A descriptor counts in 16 bytes. How many of them has a block of factors?",
    ],
)
def check_repaired(answer: object) -> str:
    """The step of a descriptor from A's scale factors to B's."""
    from cutecourse.kernels import scaled_one
    from cutecourse.kernels.scaled_ladder import exact_operands
    from cutecourse.kernels.spec import SpecError

    text = repaired_text(answer, "15.3")
    try:
        spec = scaled_one.LAUNCH.with_text(text)
    except SpecError as error:
        raise WrongAnswer(f"The text cannot be used: {error}") from error
    given, product = exact_operands(spec, "mxf8", seed=153)
    same_outputs(
        spec,
        given,
        {"c": product.astype("float32")},
        emulator_first=True,
        mistakes={
            "c": [
                (_with_factors_of_a(given), "Now B's columns hold A's factors. B's lie 512 bytes further on.")
            ]
        },
        reports={
            "AddressError": "The descriptor now leaves the shared memory of the CTA. It counts in 16 bytes."
        },
    )
    return "Half of B's rows had A's factors. Descriptors count in units of 16 bytes: a block has 32 of them."


def _with_factors_of_a(given: dict[str, Any]) -> Any:
    """The product with A's scale factors in the place of B's."""
    import numpy as np

    from cutecourse.block_scales import FORMATS, dequantise, read_back

    form = FORMATS["mxf8"]
    scales = read_back(given["sfa"], 128, 4)
    a, b = (dequantise(given[name], scales, form) for name in ("a", "b"))
    return (a @ b.T).astype(np.float32)


def _held(count: int, places: int = 13) -> float:
    total = 0.0
    for _ in range(count):
        step = 2.0 ** (math.floor(math.log2(max(total, 1.5))) - places)
        total = total // step * step + 32 * (1.5 // step * step)
        step = 2.0 ** (math.floor(math.log2(total)) - places)
        total = total // step * step
    return total


@exercise(
    "15.4",
    "A drift to predict",
    hints=[
        "While the accumulator is below 8192, the step is at most 0.5, and 1.5 is a multiple of that.",
        "From 8192 on the step is 1: what is left of a product of 1.5? And from 16384 on, where the step is 2?",
    ],
)
def check_held(answer: object) -> str:
    """An accumulator of wgmma with e4m3, of products of 1.5."""
    import numpy as np

    from cutecourse.dtypes import encode
    from cutecourse.emulator.numbers.formats import FORMATS
    from cutecourse.emulator.numbers.tensor_core_sums import TENSOR_CORES, fused_float_products

    a, b = (
        np.full(shape, encode(value, "e4m3"), np.uint8) for shape, value in (((1, 32), 1.5), ((32, 1), 1.0))
    )
    e4m3, f32 = FORMATS["e4m3"], FORMATS["f32"]
    sums = [0.0]
    bits = np.zeros((1, 1), np.uint32)
    for _ in range(600):
        bits = fused_float_products(a, b, bits, e4m3, f32, TENSOR_CORES["sm_90"])
        sums.append(float(bits.view(np.float32)[0, 0]))
    cases = [(count,) for count in (0, 1, 10, 100, 170, 171, 200, 300, 426, 427, 450, 600)]
    given = returned(answer, cases, what="the accumulator")
    if given == [48.0 * count for (count,) in cases]:
        raise WrongAnswer(
            "That is the exact sum. Each of the 32 products is cut by itself, before they are added: what is "
            "left of 1.5 beside 8192?",
            where="held(200)",
        )
    if given == [_held(count, 14) for (count,) in cases]:
        raise WrongAnswer(
            "You keep one binary place too many: with 2^13 in the accumulator the step is 1.",
            where="held(200)",
        )
    on_many(answer, cases, lambda count: sums[count], what="the accumulator")
    return "From 8192 on a third of each product is lost, and from 16384 on all of it. Longer K adds nothing at all."


@exercise(
    "15.5",
    "A kernel to write: an epilogue for e5m2",
    hints=[
        "32 columns at a time: load, wait, the largest of 32 absolute values, divide by 57344, convert with .rp.",
        "The conversion to ue8m0 gives an exponent field e. 254 - e is that of the reciprocal; shift it by 23.",
        "Row r's four factors are one word, at byte 16 * (r % 32) + 4 * (r / 32) of the block.",
    ],
)
def check_epilogue_e5m2(answer: object) -> str:
    """An epilogue that stores e5m2 in blocks of 32, with factors in a block of 128x4."""
    from dataclasses import replace

    import numpy as np

    from cutecourse.block_scales import FORMATS, placed, quantise
    from cutecourse.kernels import scaled_one
    from cutecourse.kernels.scaled_ladder import exact_operands

    given, product = exact_operands(scaled_one.LAUNCH, "mxf8", seed=155)
    del given["c"]
    form = replace(FORMATS["mxf8"], element="e5m2", largest=57344.0)
    codes, scales = quantise(product, form)
    most = np.abs(product).reshape(128, 4, 32).max(axis=2)
    rounded_down = (126 + np.frexp(most / 57344.0)[1]).astype(np.uint8)
    by_e4m3 = quantise(product, replace(form, largest=448.0))[1]
    same_outputs(
        answer,
        given | {"d": np.full((128, 128), 0x7F, np.uint8), "sfd": np.full(512, 0xEE, np.uint8)},
        {"sfd": placed(scales).reshape(-1), "d": codes},
        emulator_first=True,
        mistakes={
            "sfd": [
                (
                    scales.reshape(-1),
                    "Your factors stand row behind row. In a block, row r begins at byte 16 (r % 32) + 4 (r / 32).",
                ),
                (
                    placed(by_e4m3).reshape(-1),
                    "You divided by 448, the largest number of e4m3. e5m2 ends at 57344.",
                ),
                (
                    placed(rounded_down).reshape(-1),
                    "Your factors are one power of two too small: round up, .rp, so that the largest number fits.",
                ),
                (placed(254 - scales).reshape(-1), "You stored the exponents of the reciprocals."),
            ]
        },
        notes={"load not waited for": "The registers are read before tcgen05.wait::ld."},
    )
    return "One row of 128 columns has four factors, and four factors are one word: no thread needs another."


@exercise(
    "15.6",
    "From blocks of 16 to blocks of 32",
    hints=[
        "A row has 8 factors now: two blocks of 512 bytes for A and two for B. How many copies, how many columns?",
        "An MMA of 64 elements takes two factors. Two MMAs share a column group: IDs 0 and 2.",
        "In the instruction descriptor: bit 23 says ue8m0, bits 29 and 30 are A's ID, bits 4 and 5 B's.",
    ],
)
def check_new_text(answer: object) -> str:
    """The kernel for one tile in MXFP4."""
    from cutecourse.kernels import scaled_one
    from cutecourse.kernels.scaled_ladder import exact_operands
    from cutecourse.kernels.spec import SpecError

    if not isinstance(answer, str):
        raise WrongAnswer("Give the kernel's whole text.", expected="a str", got=type(answer).__name__)
    if "mxf4nvf4" in answer:
        raise WrongAnswer("An MMA of the old kind is still there. Blocks of 32 with ue8m0 are kind::mxf4.")
    try:
        spec = scaled_one.spec("mxf4").with_text(answer)
    except SpecError as error:
        raise WrongAnswer(f"The text cannot be used: {error}") from error
    given, product = exact_operands(spec, "mxf4", seed=156)
    same_outputs(
        spec,
        given,
        {"c": product.astype("float32")},
        emulator_first=True,
        reports={
            "scale matrix type": "The instruction descriptor still says that the factors are ue4m3.",
            "UninitializedRead": "An MMA reads columns of tensor memory to which no factors were copied.",
            "AddressError": "A copy or a load leaves the memory that is there: the factors are half as many bytes now.",
            "TransactionBytesError": "The barrier expects other bytes than those that come.",
            "data ID": "Two factors of a row begin at byte 0 or at byte 2.",
        },
        notes={"never read": "Some of the factors that you loaded are never read."},
    )
    return (
        "Half as many factors: half the bytes, half the columns, and an ID that now changes from MMA to MMA."
    )
