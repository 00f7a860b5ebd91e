"""TMA atoms, partitions and masks against the CuTe DSL on random configurations.

`CUTECOURSE_TMA_SEED` and `CUTECOURSE_TMA_CASES` draw other configurations.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tma.configs import STRATA, Config, as_tuple, draw

from cutecourse.atoms import LayoutTensor
from cutecourse.errors import CourseError
from cutecourse.layout import Layout, flatten_to_tuple, rank, size
from cutecourse.tma import (
    TmaTrace,
    cpp_str,
    create_tma_multicast_mask,
    make_cluster_layout_vmnk,
    tma_partition,
    trace_tma_atom,
)
from cutecourse.tma.encoding import SWIZZLE_SPANS

pytest.importorskip("cutlass.cute")

WORKER = Path(__file__).with_name("dsl_worker.py")
SEED = os.environ.get("CUTECOURSE_TMA_SEED", "2026-11-21")
CASES = int(os.environ.get("CUTECOURSE_TMA_CASES", "160"))
# The DSL's names of the driver's types. Where it has none for a type it takes an unsigned one as wide; C++
# takes CU_TENSOR_MAP_DATA_TYPE_INT32 and _INT64.
FORMATS = {
    "U8": {0},
    "U16": {1},
    "U32": {2, 3},
    "U64": {4, 5},
    "F16_RN": {6},
    "F32_RN": {7},
    "F64_RN": {8},
    "BF16_RN": {9},
    "TF32_RN": {11},
}
# What C++ refuses and the DSL leaves to the program that it compiles.
LATER_IN_THE_DSL = {"multicast_divides", "swizzle"}


def ask(cases: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """What the DSL says of each case: ("ok", its prints), ("refused", why) or ("crashed", the signal)."""
    answers: list[tuple[str, dict[str, Any]]] = []
    while len(answers) < len(cases):
        rest = cases[len(answers) :]
        process = run_worker(rest)
        lines = [line for line in process.stdout.splitlines() if line.startswith('["')]
        for line in lines:
            status, answer = json.loads(line)
            answers.append((status, answer))
        if len(lines) < len(rest):
            if process.returncode >= 0:
                raise RuntimeError(f"the DSL worker stopped early:\n{process.stderr[-2000:]}")
            answers.append(("crashed", {"refused": f"signal {-process.returncode}"}))
    return answers


def run_worker(cases: list[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(WORKER)],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        check=False,
    )


_TOKEN = re.compile(r"(?P<fixed>@\d+|Sw<[^>]*>)|_(?P<static>-?\d+)|(?P<dynamic>-?\d+)")


def as_dsl(text: str) -> str:
    """C++'s print as the DSL's: static numbers without the underscore, `?` for a dynamic one."""

    def token(match: re.Match[str]) -> str:
        if match["fixed"]:
            return match["fixed"].replace("Sw<", "S<")
        return match["static"] or "?"

    return _TOKEN.sub(token, text)


def show(tensor: LayoutTensor) -> list[str]:
    """Layout and start as the DSL prints them."""
    return [as_dsl(cpp_str(part)) for part in (tensor.layout, tensor.offset)]


def ours(config: Config) -> tuple[str, dict[str, Any]]:
    """The values that the DSL prints, from our trace."""
    try:
        trace = trace_tma_atom(*config.arguments(), check=False)
        # Where the innermost side is longer than the swizzle allows, or any than 256, C++ leaves it to the
        # driver to refuse, or to a multicast to cut; the DSL 4.8 makes smaller boxes, or keeps modes apart.
        span = SWIZZLE_SPANS.get(trace.encoding.swizzle, 1 << 20)
        inner = trace.smem_box_shape_pre_mcast[0] * trace.internal_type.bits // 8
        return "ok", answer(trace, config) | {
            "too_long": inner > span or max(trace.smem_box_shape_pre_mcast) > 256
        }
    except CourseError as error:
        return "refused", {"refused": str(error), "rule": getattr(error, "rule", "")}


def answer(trace: TmaTrace, config: Config) -> dict[str, Any]:
    tiler = as_tuple(config.tiler)
    tensor = trace.get_tma_tensor()
    tiles = tensor.local_tile(tiler, (None,) * rank(trace.gtensor)).group_modes(0, len(tiler))
    parts = []
    for cta in range(config.multicast):
        smem, gmem = tma_partition(trace, cta, Layout(config.multicast), config.staged(), tiles)
        parts.append([show(smem)[0], *show(gmem)])
    return {
        "tma_gbasis": str(trace.tma_gbasis),
        "copy_bits": trace.num_bits_per_tma,
        "tma_format": trace.tma_format,
        "tma_tensor": show(tensor)[0],
        "tma_start": show(tensor)[1],
        "tiles": show(tiles)[0],
        "parts": parts,
    }


def without_divisors(value: Any) -> Any:
    """The DSL's print without what it knows of a dynamic number: `?` for `?{div=4}`."""
    if isinstance(value, list):
        return [without_divisors(part) for part in value]
    return re.sub(r"\{[^}]*\}", "", value) if isinstance(value, str) else value


def differences(config: Config, got: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    found = []
    gtensor = Layout.parse(config.gtensor)
    # A mode with stride 0 keeps its coordinate in the DSL 4.8; C++ gives it none: all of it is one place. A
    # mode of one element that is several in a narrower type has none in the DSL; C++ looks at the new type.
    other_coordinates = 0 in flatten_to_tuple(gtensor.stride) or (
        config.internal is not None and (1, 1) in gtensor.leaves()
    )
    if got["too_long"]:
        return found
    for name, value in wanted.items():
        if other_coordinates and name in ("tma_tensor", "tma_start", "tiles", "parts"):
            continue
        value = without_divisors(value)
        same = got[name] in FORMATS[value] if name == "tma_format" else got[name] == value
        if not same:
            found.append(f"{name}: ours {got[name]}, DSL {value}")
    return found


@pytest.fixture(scope="module")
def answered() -> list[tuple[Config, tuple[str, dict[str, Any]]]]:
    configs = draw(SEED, CASES)
    cases = [{**config.to_json(), "staged": str(config.staged())} for config in configs]
    return list(zip(configs, ask(cases), strict=True))


def test_atoms_and_partitions__agree_with_the_cute_dsl(answered: Any) -> None:
    wrong, excepted = [], 0
    for config, (status, wanted) in answered:
        our_status, got = ours(config)
        excepted += got.get("too_long", got.get("rule") in LATER_IN_THE_DSL)
        if (status == "ok") != (our_status == "ok"):
            if our_status == "refused" and got["rule"] in LATER_IN_THE_DSL:
                continue
            wrong.append(f"{config}\n  DSL:  {status} {wanted}\n  ours: {our_status} {got}")
        elif status == "ok":
            found = differences(config, got, wanted)
            if found:
                wrong.append(f"{config}\n  " + "\n  ".join(found))
    assert not wrong, f"{len(wrong)} of {len(answered)} differ, seed {SEED}:\n" + "\n".join(wrong[:10])
    assert excepted <= len(answered) // 10


def test_random_configurations__fill_every_stratum_with_answers(answered: Any) -> None:
    """The comparison means something only if most are answered, and some refused."""
    answers = Counter((config.stratum, status) for config, (status, _) in answered)
    for stratum in STRATA:
        total = sum(answers[stratum, status] for status in ("ok", "refused", "crashed"))
        assert answers[stratum, "ok"] * 2 >= total, f"{stratum}: {answers[stratum, 'ok']} of {total} answered"
    assert len({config.to_json().__repr__() for config, _ in answered}) >= 0.9 * len(answered)


def test_multicast_masks__agree_with_the_cute_dsl() -> None:
    clusters = [
        {"cluster": shape, "thr_id": thr_id}
        for shape in ((4, 4, 1), (2, 4, 1), (8, 2, 1), (1, 1, 1), (2, 2, 2), (16, 1, 1))
        for thr_id in (1, 2)
        if shape[0] % thr_id == 0
    ]
    process = run_worker(clusters)
    assert process.returncode == 0, process.stderr[-2000:]
    printed = [line.split()[1:] for line in process.stdout.splitlines() if line.startswith("mask ")]
    wanted = iter(tuple(int(word) for word in words) for words in printed)
    for cluster in clusters:
        layout = make_cluster_layout_vmnk(cluster["cluster"], cluster["thr_id"])
        extents = [size(mode) for mode in layout]
        for index in range(size(layout)):
            crd, left = [], index
            for extent in extents:
                crd.append(left % extent)
                left //= extent
            for mode in (1, 2):
                mask = create_tma_multicast_mask(layout, tuple(crd), mode)
                got = next(wanted)
                assert got == (index, mode, got[2])
                assert mask == got[2] & 0xFFFF, (cluster, crd, mode)
    assert next(wanted, None) is None
