"""Encodings of tensor maps that keep or break one rule each, and what the CUDA driver answered to them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.paths import ROOT

RECORDING = ROOT / "tests" / "emulator" / "recordings" / "tensor_map_rules.json"

_DEFAULTS: dict[str, Any] = {
    "dtype": "f16",
    "dims": [64, 32],
    "strides": [128],
    "box": [8, 4],
    "element_strides": None,
    "swizzle": "none",
    "oob_fill": "zeros",
    "interleave": "none",
    "l2_promotion": "none",
    "offset": 0,
}


@dataclass(frozen=True)
class Encoding:
    """What to encode, the rule that it breaks (None: none), and whether only we refuse it, with why."""

    name: str
    fields: dict[str, Any]
    rule: str | None = None
    only_ours: str = ""


def _row(name: str, rule: str | None = None, only_ours: str = "", **fields: Any) -> Encoding:
    made = {**_DEFAULTS, **fields}
    made["element_strides"] = made["element_strides"] or [1] * len(made["box"])
    return Encoding(name, made, rule, only_ours)


_3D: dict[str, Any] = {"dims": [16, 16, 16], "strides": [32, 512], "box": [16, 4, 4]}
_INTERLEAVED = "interleaved layouts are not supported yet"

ENCODINGS = (
    _row("plain"),
    _row("rank_1", dims=[64], strides=[], box=[8]),
    _row("rank_5", dims=[16] * 5, strides=[32, 512, 8192, 131072], box=[8, 1, 1, 1, 1]),
    _row("rank_0", "rank", dims=[], strides=[], box=[]),
    _row("rank_6", "rank", dims=[16] * 6, strides=[32 * 16**i for i in range(5)], box=[8, 1, 1, 1, 1, 1]),
    _row("address_16", offset=16),
    _row("address_8", "address_alignment", offset=8),
    _row("address_4", "address_alignment", offset=4),
    _row("dim_0", "dim_range", dims=[64, 0]),
    _row("dim_innermost_0", "dim_range", dims=[0, 32]),
    _row("dim_2_32", dims=[64, 2**32]),
    _row("dim_2_32_and_1", "dim_range", dims=[64, 2**32 + 1]),
    _row("dim_innermost_2_32", dtype="u8", dims=[2**32, 4], strides=[2**32], box=[16, 1]),
    _row("stride_8_more", "stride_alignment", strides=[136]),
    _row("stride_1_more", "stride_alignment", strides=[129]),
    _row("stride_0", strides=[0]),
    _row("stride_16", strides=[16]),
    _row("stride_below_a_row", strides=[112]),
    _row("stride_below_the_extent", dtype="u8", dims=[64, 200, 4], strides=[64, 64], box=[16, 4, 1]),
    _row("strides_that_fall", dims=[64, 8, 4], strides=[1024, 128], box=[8, 4, 1]),
    _row("stride_largest", strides=[2**40 - 16]),
    _row("stride_2_40", "stride_range", strides=[2**40]),
    _row("stride_2_40_of_the_last", "stride_range", dims=[64, 8, 4], strides=[128, 2**40], box=[8, 4, 1]),
    _row("box_0", "box_range", box=[8, 0]),
    _row("box_256", box=[8, 256]),
    _row("box_257", "box_range", box=[8, 257]),
    _row("box_innermost_256", dtype="u8", dims=[512, 4], strides=[512], box=[256, 1]),
    _row("box_innermost_272", "box_range", dtype="u8", dims=[512, 4], strides=[512], box=[272, 1]),
    _row("box_row_of_24_bytes", "box_inner_bytes", box=[12, 4]),
    _row("box_row_of_8_bytes", "box_inner_bytes", box=[4, 4]),
    _row("box_row_of_8_bytes_u8", "box_inner_bytes", dtype="u8", strides=[64], box=[8, 4]),
    _row("box_row_of_8_bytes_f64", "box_inner_bytes", dtype="f64", strides=[512], box=[1, 4]),
    _row("box_row_of_16_bytes_f64", dtype="f64", strides=[512], box=[2, 4]),
    _row("box_larger_than_the_tensor", dims=[8, 4], strides=[16], box=[64, 64]),
    _row("box_of_228_KiB", dtype="u32", dims=[1024, 1024], strides=[4096], box=[256, 228]),
    _row("box_of_230_KiB", "box_bytes", dtype="u32", dims=[1024, 1024], strides=[4096], box=[256, 230]),
    _row("box_of_256_KiB_of_which_half_moves", dtype="u32", dims=[1024, 1024], strides=[4096], box=[256, 256],
         element_strides=[1, 2]),
    _row("box_of_200_KiB_swizzled_with_a_wide_pitch", dtype="u8", dims=[1024, 64, 64], strides=[1024, 65536],
         box=[16, 256, 50], swizzle="128B"),
    _row("element_stride_8", element_strides=[1, 8]),
    _row("element_stride_9", "element_stride_range", element_strides=[1, 9]),
    _row("element_stride_0", "element_stride_range", element_strides=[1, 0]),
    _row("element_stride_innermost_2", element_strides=[2, 1]),
    _row("element_stride_innermost_0", "element_stride_range", element_strides=[0, 1]),
    _row("element_stride_innermost_9", "element_stride_range", element_strides=[9, 1]),
    _row("element_stride_over_the_box", box=[8, 2], element_strides=[1, 4]),
    _row("swizzle_32B", box=[16, 4], swizzle="32B"),
    _row("swizzle_64B", box=[32, 4], swizzle="64B"),
    _row("swizzle_128B", box=[64, 4], swizzle="128B"),
    _row("swizzle_128B_of_a_narrow_row", swizzle="128B"),
    _row("swizzle_32B_of_64_bytes", "swizzle_span", box=[32, 4], swizzle="32B"),
    _row("swizzle_64B_of_128_bytes", "swizzle_span", box=[64, 4], swizzle="64B"),
    _row("swizzle_128B_of_256_bytes", "swizzle_span", dims=[256, 4], strides=[512], box=[128, 4],
         swizzle="128B"),
    _row("swizzle_that_is_none", "swizzle", swizzle=7),
    _row("nan_f16", oob_fill="nan"),
    _row("nan_bf16", dtype="bf16", oob_fill="nan"),
    _row("nan_f32", dtype="f32", strides=[256], oob_fill="nan"),
    _row("nan_f64", dtype="f64", strides=[512], oob_fill="nan"),
    _row("nan_tf32", dtype="tf32", strides=[256], oob_fill="nan"),
    _row("nan_u8", "oob_fill", dtype="u8", strides=[64], box=[16, 4], oob_fill="nan"),
    _row("nan_u16", "oob_fill", dtype="u16", oob_fill="nan"),
    _row("nan_s32", "oob_fill", dtype="s32", strides=[256], oob_fill="nan"),
    _row("fill_that_is_none", "oob_fill", oob_fill=2),
    _row("l2_promotion_256B", l2_promotion="256B"),
    _row("l2_promotion_that_is_none", "l2_promotion", l2_promotion=4),
    _row("dtype_that_is_none", "dtype", dtype=16),
    _row("interleave_16B", "interleave", _INTERLEAVED, dims=[8, 16, 16], strides=[16, 256], box=[8, 4, 4],
         interleave="16B"),
    _row("interleave_32B", "interleave", _INTERLEAVED, **_3D, interleave="32B", swizzle="32B"),
    _row("interleave_16B_rank_2", "interleave", interleave="16B"),
    _row("interleave_32B_address_16", "interleave", **_3D, interleave="32B", swizzle="32B", offset=16),
    _row("interleave_that_is_none", "interleave", **_3D, interleave=3),
    _row("everything", dims=[64, 8, 4, 3, 2], strides=[128, 1024, 4096, 12288], box=[64, 2, 2, 2, 2],
         element_strides=[1, 2, 1, 2, 1], swizzle="128B", oob_fill="nan", l2_promotion="128B"),
)  # fmt: skip


def fields() -> dict[str, dict[str, Any]]:
    """What each encoding asks for: kept beside the answers, so that they can be read without this module."""
    return {row.name: row.fields for row in ENCODINGS}


def read() -> dict[str, Any]:
    """The recording: its head, `answers` and `encodings`."""
    recording: dict[str, Any] = json.loads(RECORDING.read_text())
    return recording


def write(header: dict[str, Any], answers: dict[str, int], path: Path = RECORDING) -> None:
    """Write the driver's answers with the encodings that they are for."""
    recording = json.dumps({**header, "answers": answers, "encodings": {}}, indent=2, sort_keys=True)
    asked = ",\n".join(
        f"    {json.dumps(name)}: {json.dumps(encoding)}" for name, encoding in sorted(fields().items())
    )  # one line for each, where json would take twenty
    path.write_text(recording.replace('"encodings": {}', f'"encodings": {{\n{asked}\n  }}') + "\n")
