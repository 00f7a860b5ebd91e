"""How `attention_online` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, SpecError, Tensor

FILE = kernel_file("attention_online")
__getattr__ = FILE.attribute  # the kernel's constants and functions


def spec(heads: int, length: int, *, causal: bool = False) -> LaunchSpec:
    """The launch for O = softmax(Q K^T / 8) V of each head: Q, K, V and O (heads, length, 64), all f16.

    causal  a query sees the keys up to its own position only.

    Errors: SpecError for no head or no query.
    """
    tile = FILE.constant("TILE")
    if heads < 1 or length < 1:
        raise SpecError(
            f"attention_online: {heads} heads of {length} queries; it needs one of each at least."
        )
    shape, stride = (heads, length, tile), (length * tile, tile, 1)
    return LaunchSpec(
        name="attention_online_causal" if causal else "attention_online",
        language="cutedsl",
        kernel=FILE.function("attention_online"),
        host=FILE.function("host_for").given(int(causal)),
        grid=(-(-length // tile), heads, 1),
        block=(FILE.constant("THREADS"), 1, 1),
        dynamic_smem=3 * tile * tile * 2,
        params=tuple(Tensor(name, "f16", shape, stride) for name in "qkvo"),
    )


LAUNCH = spec(*FILE.constant("SHAPE")[:2])
CAUSAL = spec(*FILE.constant("SHAPE")[:2], causal=True)
