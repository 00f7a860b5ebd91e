"""What the specifications of chapter 14's kernels have in common: the tensor maps, the grid, the pairs."""

from __future__ import annotations

from cutecourse.kernels.files import KernelFile, kernel_text
from cutecourse.kernels.spec import LaunchSpec, Scalar, SpecError, Tensor, TensorMapSpec
from cutecourse.layout import parse

__all__ = ["twin_with", "umma_spec", "with_sections"]

_CTA_SMEM_BYTES = 227 * 1024
"""Shared memory of a CTA (CUDA C++ Programming Guide, Technical Specifications per Compute Capability)."""


def umma_spec(
    file: KernelFile,
    mnk: tuple[int, int, int],
    sms: int,
    *,
    columns: int | None = None,
    stages: int | None = None,
    blends: bool = False,
    further: tuple[Tensor, ...] = (),
    pairs: int | None = None,
    smem_bytes: int = 0,
    given: tuple[object, ...] = (),
) -> LaunchSpec:
    """The launch of a rung: f16 operands A (M, K) and B (N, K), and D (M, N) of bf16, all row-major.

    sms         how many SMs an MMA takes: 2, or 1 for a kernel without pairs.
    columns     of an MMA's result; COLUMNS of the kernel's file unless given.
    stages      for k-tiles; STAGES of the file unless given.
    blends      the kernel also takes C (M, N) of bf16 and the numbers alpha and beta.
    further     arrays that it takes behind those.
    pairs       None: a pair, or an SM, for each tile. A number: so many at most share the tiles.
    smem_bytes  of shared memory, for what stands behind the stages, the pieces of D and their barriers.
    given       further arguments of the file's `host_for`.

    Errors: SpecError for another number of SMs, for fewer than one pair, for more stages than fit, for
            extents of 1, and for N or K that is no multiple of 8.
    """
    m, n, k = mnk
    if sms not in (1, 2):
        raise SpecError(f"{file.name}: sms is 1 or 2, not {sms!r}.")
    if pairs is not None and pairs < 1:
        raise SpecError(f"{file.name}: pairs is at least 1, not {pairs!r}.")
    if m < 2 or n % 8 or k % 8 or not n or not k:
        raise SpecError(
            f"{file.name}: TMA steps along rows of whole 16 bytes, so N and K must be multiples of 8, and "
            f"M at least 2; {mnk} is not."
        )
    columns, stages = columns or file.constant("COLUMNS"), stages or file.constant("STAGES")
    cta_rows, k_tile = file.constant("CTA_ROWS"), file.constant("K_TILE")
    warps, buffers = file.constant("STORING_WARPS"), file.constant("BUFFERS")
    piece = file.constant("PIECE")

    def operand(name: str, extents: tuple[int, int], rows: int) -> TensorMapSpec:
        return TensorMapSpec(
            name,
            "f16",
            extents,
            (k, 1),
            smem_layout=parse(f"S<3,4,3> o 0 o (({rows},16),1,4):((64,1),0,16)"),
            cta_tiler=(rows, k_tile),
        )

    result = TensorMapSpec(
        "d",
        "bf16",
        (m, n),
        (n, 1),
        smem_layout=parse(f"S<3,4,3> o 0 o ({piece[0]},{piece[1]}):({piece[1]},1)"),
        cta_tiler=piece,
    )
    blend = (Tensor("c", "bf16", (m, n), (n, 1)), Scalar("alpha", "f32"), Scalar("beta", "f32"))
    tiles = -(-m // (cta_rows * sms)), -(-n // columns)
    grid = (tiles[0] * sms, tiles[1], 1)
    if pairs is not None:
        grid = (min(pairs, tiles[0] * tiles[1]) * sms, 1, 1)
    stage_bytes = (cta_rows + columns // sms) * k_tile * 2 + 2 * 8
    other_bytes = warps * buffers * piece[0] * piece[1] * 2 + smem_bytes
    if stages * stage_bytes + other_bytes > _CTA_SMEM_BYTES:
        raise SpecError(
            f"{file.name}: {stages} stages of {stage_bytes} bytes and {other_bytes} bytes for the rest are "
            f"more than the {_CTA_SMEM_BYTES} bytes of shared memory that a CTA can have; use "
            f"{(_CTA_SMEM_BYTES - other_bytes) // stage_bytes} stages or fewer."
        )
    return LaunchSpec(
        name=file.name,
        language="cutedsl",
        kernel=file.function(file.name),
        host=file.function("host_for").given(sms, int(blends), *given),
        grid=grid,
        block=(file.constant("THREADS"), 1, 1),
        cluster=(sms, 1, 1),
        dynamic_smem=stages * stage_bytes + other_bytes,
        params=(
            operand("a", (m, k), cta_rows),
            operand("b", (n, k), columns // sms),
            result,
            *(blend if blends else ()),
            *further,
        ),
        target="sm_100a",
    )


def twin_with(spec: LaunchSpec, *sections: str) -> str:
    """A kernel's `twin.ptx` with these of its sections, those that a launch has a use for."""
    assert spec.module is not None
    return with_sections(kernel_text(spec.module, "twin.ptx"), *sections)


def with_sections(text: str, *sections: str) -> str:
    r"""A text without the lines of those of its sections that are not named.

    A section stands between the lines `//[ NAME` and `//]`, where a remark may follow NAME behind a colon.

    >>> with_sections("a\n//[ one: not always\nb\n//]\nc\n", "two")
    'a\nc\n'
    """
    lines, kept = [], True
    for line in text.splitlines(keepends=True):
        if line.startswith("//["):
            kept = line[3:].partition(":")[0].strip() in sections
        elif line.startswith("//]"):
            kept = True
        elif kept:
            lines.append(line)
    return "".join(lines)
