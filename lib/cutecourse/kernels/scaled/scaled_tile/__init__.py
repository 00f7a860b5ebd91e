"""How `scaled_tile` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, SpecError, Tensor, TensorMapSpec
from cutecourse.layout import parse

FILE = kernel_file("scaled_tile")
__getattr__ = FILE.attribute  # the kernel's constants and functions


def spec(k: int) -> LaunchSpec:
    """The launch for C (128, 128) = A (128, K) times B (128, K) transposed, in e4m3, with K in 128s.

    `sfa` and `sfb` are the factors of ue8m0, a block of 512 bytes for each k-tile: `block_scales.placed` of
    (128, K / 32) factors, as an array of K / 128 rows. Errors: SpecError for another K.
    """
    rows, columns, tile_k = FILE.constant("TILE")
    block = FILE.constant("BLOCK_BYTES")
    if k < tile_k or k % tile_k:
        raise SpecError(f"scaled_tile: K must be a multiple of {tile_k}, not {k}.")

    def operand(name: str, extent: int) -> TensorMapSpec:
        return TensorMapSpec(
            name,
            "e4m3",
            (extent, k),
            (k, 1),
            smem_layout=parse("S<3,4,3> o 0 o ((128,32),1,4):((128,1),0,32)"),
            cta_tiler=(extent, tile_k),
        )

    def factors(name: str) -> Tensor:
        return Tensor(name, "u8", (block, k // tile_k), (1, block))

    return LaunchSpec(
        name="scaled_tile",
        language="cutedsl",
        kernel=FILE.function("scaled_tile"),
        host=FILE.function("host"),
        grid=(1, 1, 1),
        block=(FILE.constant("THREADS"), 1, 1),
        dynamic_smem=(rows + columns) * tile_k + 1024 + block + 2 * 8 + 4,
        params=(
            operand("a", rows),
            operand("b", columns),
            factors("sfa"),
            factors("sfb"),
            Tensor("c", "f32", (rows, columns), (columns, 1)),
        ),
        target="sm_100a",
    )


LAUNCH = spec(384)
