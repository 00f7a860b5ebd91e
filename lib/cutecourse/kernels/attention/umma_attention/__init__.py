"""Attention for Blackwell in PTX by hand: two tiles of queries, and a warpgroup that corrects O."""

from cutecourse.dtypes import dtype
from cutecourse.kernels.scaled_ladder import filled
from cutecourse.kernels.spec import LaunchSpec, SpecError, Tensor, TensorMapSpec
from cutecourse.tma import TensorMapEncoding

DEPTH = 64  # elements of a query
ROWS = 256  # queries of a CTA, in two tiles
KEYS = 64  # of a round
THREADS = 448  # two warpgroups for the softmax, one that corrects O, a warp that multiplies, one that loads


def spec(heads: int, length: int, *, causal: bool = False) -> LaunchSpec:
    """The launch for O = softmax(Q K^T / 8) V of each head: Q, K, V and O (heads, length, 64), all f16.

    causal  a query sees the keys up to its own position only.

    Errors: SpecError for no head or no query.
    """
    if heads < 1 or length < 1:
        raise SpecError(f"umma_attention: {heads} heads of {length} queries; it needs one of each at least.")
    shape, stride = (heads, length, DEPTH), (length * DEPTH, DEPTH, 1)

    def operand(name: str, rows: int) -> TensorMapSpec:
        encoding = TensorMapEncoding(
            dtype("f16"),
            (DEPTH, length, heads),
            (DEPTH * 2, length * DEPTH * 2),
            (DEPTH, rows, 1),
            swizzle="128B",
        )
        return TensorMapSpec.encoded(name, "f16", shape, stride, encoding)

    return LaunchSpec(
        name="umma_attention_causal" if causal else "umma_attention",
        module="umma_attention",
        language="ptx",
        ptx=filled("umma_attention", {"HEADS": heads, "LENGTH": length}, *(["causal"] if causal else [])),
        entry="umma_attention",
        target="sm_100a",
        grid=(-(-length // ROWS), heads, 1),
        block=(THREADS, 1, 1),
        dynamic_smem=67584 + 156,
        params=(
            operand("q", ROWS),
            operand("k", KEYS),
            operand("v", KEYS),
            Tensor("o", "f16", shape, stride),
        ),
    )


LAUNCH = spec(1, 300)
CAUSAL = spec(1, 300, causal=True)
