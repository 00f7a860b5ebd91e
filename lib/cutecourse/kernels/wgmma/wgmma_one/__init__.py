"""How `wgmma_one` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file, kernel_text
from cutecourse.kernels.spec import LaunchSpec, SpecError, Tensor

FILE = kernel_file("wgmma_one")
__getattr__ = FILE.attribute  # the kernel's constants and functions


def spec(m: int = 64, k: int = 256, major_a: str = "K", major_b: str = "K") -> LaunchSpec:
    """The launch for A (m, k) and B (256, k), each contiguous along "K" or along "MN".

    Errors: SpecError for a size that the tile does not divide.
    """
    rows, n, k_tile = FILE.constant("TILE")
    if m % rows or k % k_tile:
        raise SpecError(f"wgmma_one: M must be a multiple of {rows} and K of {k_tile}; got {m} and {k}.")
    return LaunchSpec(
        name="wgmma_one",
        language="cutedsl",
        kernel=FILE.function("wgmma_one"),
        host=FILE.function("host_for").given(major_a, major_b),
        grid=(m // rows, 1, 1),
        block=(FILE.constant("THREADS"), 1, 1),
        dynamic_smem=(rows + n) * k_tile * 2,
        params=(
            Tensor("a", "f16", (m, k), (k, 1) if major_a == "K" else (1, m)),
            Tensor("b", "f16", (n, k), (k, 1) if major_b == "K" else (1, n)),
            Tensor("c", "f32", (m, n), (n, 1)),
        ),
        target="sm_90a",
    )


def twin_text(spec: LaunchSpec) -> str:
    """The twin's text: operands that are contiguous along MN have one of their own."""
    along_mn = any(operand.stride[0] == 1 for operand in spec.tensors[:2] if operand.stride)
    return kernel_text("wgmma_one", "twin_mn.ptx" if along_mn else "twin.ptx")


LAUNCH = spec()
