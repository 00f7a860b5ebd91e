"""How `micro_gemm_swizzled` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor

FILE = kernel_file("micro_gemm_swizzled")
__getattr__ = FILE.attribute  # the kernel's constants and functions


def spec(bits: int) -> LaunchSpec:
    """The launch with the swizzle S<bits,3,3> on both tiles; 0 bits leave them as they are."""
    return LaunchSpec(
        name="micro_gemm_swizzled" if bits == 3 else f"micro_gemm_swizzled_{bits}",
        language="cutedsl",
        kernel=FILE.function("micro_gemm_swizzled"),
        host=FILE.function("host_for").given(bits),
        grid=(1, 1, 1),
        block=(32, 1, 1),
        dynamic_smem=(8 + 16) * 64 * 2,
        params=(
            Tensor("a", "f16", (16, 64), (64, 1)),  # (M, K), K-major
            Tensor("b", "f16", (8, 64), (64, 1)),  # (N, K), K-major
            Tensor("c", "f32", (16, 8), (8, 1)),  # (M, N), row-major
        ),
    )


LAUNCH = spec(bits=3)
PLAIN = spec(bits=0)
