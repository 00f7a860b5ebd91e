"""Seven mistakes as people make them in CUDA, each run from the command line: the report names its line.

`compiled` is nvcc's PTX of bugs.cu with line information, `reduced` a text of ours that runs everywhere.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from cutecourse.cli import main

CUDA = Path(__file__).parent / "cuda" / "bugs.cu"
REDUCED = CUDA.with_suffix(".ptx")
SAID = {
    "missing_barrier": "put a barrier between it and the read",
    "out_of_bounds": "0 bytes past the end of the nearest allocation",
    "short_expect_tx": "bytes, because the expect_tx at line",
    "long_expect_tx": "bytes are missing at mbarrier",
    "second_round": "with parity 1 first",
    "missing_wait_group": "Is a cp.async.wait_group missing",
    "missing_proxy_fence": "with no fence.proxy.async after it",
}


def with_mistakes(text: str) -> str:
    """The text with its marked lines left out or replaced, each line at its place."""
    text = re.sub(r"^.*//- \w+$", "", text, flags=re.MULTILINE)
    return re.sub(r"^.*//! \w+: ", "", text, flags=re.MULTILINE)


def marked(name: str) -> list[int]:
    """The lines of bugs.cu that the report of a mistake has to name."""
    lines = enumerate(CUDA.read_text().splitlines(), 1)
    return [number for number, line in lines if line.endswith(f"//> {name}")]


def located(text: str) -> str:
    """The reduced text with a `.loc` in front of each line that stands for a marked line of bugs.cu."""
    return re.sub(
        r"^(.*)//> (\w+) (\d)$",
        lambda found: f".loc 1 {marked(found[2])[int(found[3])]} 0 {found[1]}\n.loc 1 1 0",
        text,
        flags=re.MULTILINE,
    )


@pytest.fixture(scope="module")
def reduced() -> dict[str, str]:
    text = REDUCED.read_text()
    return {"right": located(text), "wrong": located(with_mistakes(text))}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory, find_program) -> dict[str, str]:
    nvcc, folder, found = find_program("nvcc"), tmp_path_factory.mktemp("bugs"), {}
    for name, text in (("right", CUDA.read_text()), ("wrong", with_mistakes(CUDA.read_text()))):
        (folder / name).mkdir()
        source, target = folder / name / CUDA.name, folder / name / "bugs.ptx"
        source.write_text(text)
        options = ["-std=c++17", "-arch=sm_90a", "-lineinfo", "-ptx", "-o", str(target)]
        subprocess.run([nvcc, *options, str(source)], check=True, capture_output=True, timeout=120)
        found[name] = target.read_text()
    return found


TEXTS = [
    "reduced",
    pytest.param(
        "compiled", marks=[pytest.mark.program("nvcc"), pytest.mark.inputs(f"tests/cli/cuda/{CUDA.name}")]
    ),
]


def emulate(capsys, folder: Path, text: str, kernel: str) -> tuple[int, str]:
    """Run a kernel as an engineer would, in a folder of its own; the status and what it said."""
    bounded = kernel == "out_of_bounds"
    size = 1000 if bounded else 2048
    (folder / "kernel.ptx").write_text(text)
    np.save(folder / "a.npy", np.arange(size, dtype=np.float32))
    words = ["emulate", str(folder / "kernel.ptx"), "--entry", kernel, "--block", "128"]
    words += ["--arg", f"out:{folder / 'c.npy'}:f32:{size}", "--arg", f"in:{folder / 'a.npy'}"]
    status = main([*words, *(["--arg", f"u32:{size}", "--grid", "8"] if bounded else [])])
    return status, capsys.readouterr().err


@pytest.mark.parametrize("texts", TEXTS)
@pytest.mark.parametrize("kernel", SAID)
def test_bugs__right_kernel_has_no_report(request, capsys, tmp_path, texts, kernel):
    assert emulate(capsys, tmp_path, request.getfixturevalue(texts)["right"], kernel) == (0, "")


@pytest.mark.parametrize("texts", TEXTS)
@pytest.mark.parametrize("kernel", SAID)
def test_bugs__report_leads_to_the_mistake(request, capsys, tmp_path, texts, kernel):
    status, said = emulate(capsys, tmp_path, request.getfixturevalue(texts)["wrong"], kernel)
    assert status == 1
    assert SAID[kernel] in said
    [place] = re.findall(r"at kernel .*", said)
    assert any(f"bugs.cu:{line})" in place for line in marked(kernel)), said


@pytest.mark.parametrize("texts", TEXTS)
@pytest.mark.parametrize("kernel", SAID)
def test_bugs__report_names_both_lines(request, capsys, tmp_path, texts, kernel):
    _, said = emulate(capsys, tmp_path, request.getfixturevalue(texts)["wrong"], kernel)
    missing = [line for line in marked(kernel) if f"bugs.cu:{line})" not in said]
    assert not missing, said
