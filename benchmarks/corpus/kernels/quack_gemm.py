"""QuACK: products of matrices in the CuTe DSL, with wgmma on Hopper and with tcgen05 on Blackwell."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.corpus.entries import dsl_kernels
from benchmarks.corpus.problems import Draw, Mapped, Problem, Shaped, Tensor, Zeros, poisoned
from cutecourse.analysis.dsl import DslCoordTensor
from cutecourse.dtypes import decode, encode

Array = NDArray[Any]

kernel = dsl_kernels("quack")
L, M, N, K = 2, 200, 280, 208
HOPPER, BLACKWELL = ("90a",), ("100a",)
SCALED_K = 640
TILE = 128
PERSISTENT = (1, 1, 2)
"""The grid: two blocks that take the tiles in turn."""
ONE_SM_SCALED, TWO_SM_SCALED = Zeros(4, 2), Zeros(4, 2)


def _gemm(
    a: str = "Float16",
    d: str = "Float16",
    *,
    is_hopper: bool = True,
    has_c: bool = False,
    majors: str = "kk",
    tile: tuple[int, int] = (TILE, TILE),
    cluster: int = 1,
    is_pingpong: bool = False,
    is_dynamic: bool = False,
    **more: Any,
) -> dict[str, Any]:
    """The request for a GEMM: the arguments of _compile_gemm up to the number of warps."""
    kind, out = {"type": a}, {"type": d}
    types = [kind, kind, out, out if has_c else None, *majors, "n", "n" if has_c else None]
    schedule = [list(tile), [cluster, 1, 1], is_pingpong, True, is_dynamic]
    no_vectors, no_scalars = [None, None, 0], [0, 0, False]
    plain = [*no_vectors, *no_scalars, [], False, False, False, False, False]
    arguments = [*types, *schedule, *plain, [9 if is_hopper else 10, 0], 0, 0, None]
    return {
        "function": "quack.gemm:_compile_gemm",
        "on": HOPPER if is_hopper else BLACKWELL,
        "arguments": arguments,
        "keywords": more,
    }


def _divisor(number: int) -> list[np.uint32]:
    """A divisor of QuACK's FastDivmod: the multiplier, the shift, the number."""
    shift = max((number - 1).bit_length() - 1, 0)
    return [np.uint32(-(-(1 << 32 + shift) // number) & 0xFFFFFFFF), np.uint32(shift), np.uint32(number)]


def _scheduler(n_rows: int, n_columns: int) -> list[Any]:
    """TileScheduler's parameters, for groups of at most 8 columns of tiles."""
    group = min(8, n_columns)
    shape = [np.int32(one) for one in (n_rows, n_columns, L)]
    along_n = np.int32(1)
    return [*shape, along_n, *_divisor(n_rows * n_columns), np.int32(n_columns // group), *_divisor(group),
            *_divisor(n_columns % group or 1), *_divisor(group * n_rows)]  # fmt: skip


def _matrix(draw: Draw, length: int, major: str, kind: str) -> Tensor:
    """A and B: (L, length, K), or with the length innermost (L, K, length)."""
    shape = (L, length, K) if major == "k" else (L, K, length)
    return draw.normal(*shape, kind=kind)


def _rows(tensor: Tensor, major: str) -> Any:
    return tensor.values if major == "k" else np.swapaxes(tensor.values, 1, 2)


def _problem(
    draw: Draw,
    mma: Zeros,
    *,
    kind: str = "f16",
    out: str = "f16",
    majors: str = "kk",
    has_c: bool = False,
    boxes: tuple[int, int] = (TILE, TILE),
    tile_rows: int = TILE,
    store_rows: int = TILE,
    extra: list[Any] | None = None,
    last: list[Any] | None = None,
    **launch: Any,
) -> Problem:
    a, b = _matrix(draw, M, majors[0], kind), _matrix(draw, N, majors[1], kind)
    product = _rows(a, majors[0]) @ np.swapaxes(_rows(b, majors[1]), 1, 2)
    c = draw.normal(L, M, N, kind=out) if has_c else None
    d = poisoned(product + (c.values if c else 0), out)
    swizzled = 128 // a.codes.itemsize
    args: list[Any] = [mma]
    for one, length, major, box in zip((a, b), (M, N), majors, boxes, strict=True):
        args += [Mapped(one, (swizzled, box) if major == "k" else (64, 64)), DslCoordTensor([length, K, L])]
    for result in [d, c] if c else [d]:
        args += [Mapped(result, (32, store_rows), "64B"), DslCoordTensor([M, N, L])]
    args += [*(extra or []), *_scheduler(-(-M // tile_rows), -(-N // TILE)), *(last or [])]
    return Problem(**{"grid": PERSISTENT, "smem_bytes": 227 << 10, "args": args, **launch})


def _hopper(draw: Draw, **more: Any) -> Problem:
    return _problem(draw, Zeros(1, 0), block=384, **more)


def _blackwell(draw: Draw, **more: Any) -> Problem:
    return _problem(draw, Zeros(16, 4), block=256, **more)


@kernel(**_gemm())
def hopper_gemm(draw: Draw) -> Problem:
    return _hopper(draw)


@kernel(**_gemm(has_c=True))
def hopper_gemm_plus_c(draw: Draw) -> Problem:
    return _hopper(draw, has_c=True)


@kernel(**_gemm(majors="mn"))
def hopper_gemm_transposed(draw: Draw) -> Problem:
    return _hopper(draw, majors="mn")


@kernel(**_gemm("Float8E4M3FN", "BFloat16"))
def hopper_gemm_of_8_bits(draw: Draw) -> Problem:
    return _hopper(draw, kind="e4m3", out="bf16")


@kernel(**_gemm(tile=(64, TILE), is_pingpong=True))
def hopper_gemm_pingpong(draw: Draw) -> Problem:
    return _hopper(draw, boxes=(64, TILE), tile_rows=64, store_rows=64)


@kernel(**_gemm(cluster=2))
def hopper_gemm_of_a_cluster(draw: Draw) -> Problem:
    return _hopper(draw, boxes=(TILE, 64), tile_rows=2 * TILE, grid=(2, 1, 2), cluster=(2, 1))


@kernel(**_gemm(is_dynamic=True))
def hopper_gemm_dynamic(draw: Draw) -> Problem:
    return _hopper(draw, last=[Shaped(Tensor([0], "s32"), (), ())])


@kernel(**_gemm(is_hopper=False))
def blackwell_gemm(draw: Draw) -> Problem:
    return _blackwell(draw)


@kernel(**_gemm(is_hopper=False, has_c=True))
def blackwell_gemm_plus_c(draw: Draw) -> Problem:
    return _blackwell(draw, has_c=True)


@kernel(**_gemm(is_hopper=False, majors="mn"))
def blackwell_gemm_transposed(draw: Draw) -> Problem:
    return _blackwell(draw, majors="mn")


@kernel(**_gemm("Float8E4M3FN", "BFloat16", is_hopper=False))
def blackwell_gemm_of_8_bits(draw: Draw) -> Problem:
    return _blackwell(draw, kind="e4m3", out="bf16")


@kernel(**_gemm(is_hopper=False, tile=(256, TILE), cluster=2))
def blackwell_gemm_of_two_sms(draw: Draw) -> Problem:
    return _problem(
        draw, Zeros(32, 8), block=256, boxes=(TILE, 64), tile_rows=256, grid=(2, 1, 2), cluster=(2, 1)
    )


@kernel(**_gemm(is_hopper=False, is_dynamic=True))
def blackwell_gemm_of_cancelled_blocks(draw: Draw) -> Problem:
    return _blackwell(draw, grid=(6, 1, 2))


def _split(draw: Draw, problem: Any) -> Problem:
    """Two blocks add their halves of K in turn."""
    tiles = (L, 2, 3)
    semaphore, sums = Tensor(np.zeros(tiles), "s32"), Tensor(np.zeros((*tiles, TILE * TILE)), "f32")
    return problem(draw, extra=[Shaped(semaphore, (1, 2, 0), (1, 0)), Shaped(sums, (3, 1, 2, 0), (1, 2, 0))])


@kernel(**_gemm(split_k=2))
def hopper_gemm_of_split_k(draw: Draw) -> Problem:
    return _split(draw, _hopper)


@kernel(**_gemm(is_hopper=False, split_k=2))
def blackwell_gemm_of_split_k(draw: Draw) -> Problem:
    return _split(draw, _blackwell)


def _scaled(a: str, scale: str, size: int, **more: Any) -> dict[str, Any]:
    """The request for a GEMM whose operands have a scale for every `size` elements of a row."""
    return _gemm(a, "BFloat16", is_hopper=False, sf_dtype={"type": scale}, sf_vec_size=size, **more)


def _narrow(draw: Draw, rows: int, kind: str, scale: str, size: int) -> tuple[Tensor, Tensor, Array]:
    """The operand's bytes, its scales in blocks of 128 rows by 4 scales, and its numbers."""
    if kind == "e2m1":
        codes = draw.random.integers(0, 16, (L, rows, SCALED_K), dtype=np.uint8)
        operand = Tensor(codes[..., ::2] | codes[..., 1::2] << 4, "u8")
        values = decode(codes, kind)
    else:
        operand = draw.normal(L, rows, SCALED_K, kind=kind)
        values = operand.values
    padded, columns = -(-rows // 128) * 128, SCALED_K // size
    powers = draw.random.integers(-3, 4, (L, padded, columns))
    factors = np.exp2(powers)
    blocks = (
        encode(factors, scale).reshape(L, padded // 128, 4, 32, columns // 4, 4).transpose(0, 1, 4, 3, 2, 5)
    )
    scales = np.ascontiguousarray(blocks).reshape(L, padded // 128, columns // 4, 512).view(np.uint16)
    return operand, Tensor(scales, "u16"), values * np.repeat(factors[:, :rows], size, axis=2)


def _block_scaled(
    draw: Draw,
    kind: str,
    scale: str,
    size: int,
    mma: Zeros,
    *,
    boxes: tuple[int, int] = (TILE, TILE),
    **launch: Any,
) -> Problem:
    a, a_scales, a_values = _narrow(draw, M, kind, scale, size)
    b, b_scales, b_values = _narrow(draw, N, kind, scale, size)
    is_packed = kind == "e2m1"
    width = 256 if is_packed else 128
    args: list[Any] = [mma]
    for one, rows, box in ((a, M, boxes[0]), (b, N, boxes[1])):
        args += [Mapped(one, (width, box), packed=is_packed), DslCoordTensor([rows, SCALED_K, L])]
    # A box has the scales of a tile; where these are one block, CuTe orders A's blocks by their rows first.
    blocks = width // size // 4
    a_axes = (3, 1, 2, 0) if blocks == 1 else (3, 2, 1, 0)
    # The two SMs of a pair load half of B's scales each, for both.
    n_sms = launch.get("cluster", (1,))[0]
    for scales, axes, sharing in ((a_scales, a_axes, 1), (b_scales, (3, 2, 1, 0), n_sms)):
        args += [Mapped(scales, (256, blocks // sharing), "none", axes=axes), DslCoordTensor([1, 1, L])]
    d = poisoned(a_values @ np.swapaxes(b_values, 1, 2), "bf16")
    tile_rows = TILE * n_sms
    args += [
        Mapped(d, (32, TILE), "64B"),
        DslCoordTensor([M, N, L]),
        *_scheduler(-(-M // tile_rows), -(-N // TILE)),
    ]
    return Problem(**{"grid": PERSISTENT, "smem_bytes": 227 << 10, "block": 256, "args": args, **launch})


@kernel(**_scaled("Float8E4M3FN", "Float8E8M0FNU", 32))
def blackwell_gemm_mxf8(draw: Draw) -> Problem:
    return _block_scaled(draw, "e4m3", "ue8m0", 32, ONE_SM_SCALED)


@kernel(**_scaled("Float4E2M1FN", "Float8E8M0FNU", 32))
def blackwell_gemm_mxf4(draw: Draw) -> Problem:
    return _block_scaled(draw, "e2m1", "ue8m0", 32, ONE_SM_SCALED)


@kernel(**_scaled("Float4E2M1FN", "Float8E4M3FN", 16))
def blackwell_gemm_nvf4(draw: Draw) -> Problem:
    return _block_scaled(draw, "e2m1", "e4m3", 16, ONE_SM_SCALED)


@kernel(**_scaled("Float4E2M1FN", "Float8E4M3FN", 16, tile=(256, TILE), cluster=2))
def blackwell_gemm_nvf4_of_two_sms(draw: Draw) -> Problem:
    launch = {"grid": (2, 1, 2), "cluster": (2, 1)}
    return _block_scaled(draw, "e2m1", "e4m3", 16, TWO_SM_SCALED, boxes=(TILE, 64), **launch)
