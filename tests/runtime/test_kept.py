"""The texts kept on disk: found again by another process, never for other inputs, never in the way."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cutecourse import runtime
from cutecourse.kernels import LaunchSpec, Tensor, copy_threads, micro_gemm, umma_gemm, umma_parts
from cutecourse.kernels.chapters import CHAPTERS
from cutecourse.kernels.files import KernelFile, kernel_module
from cutecourse.runtime import compiling, kept

PROGRAM = (
    "import sys\n"
    "from cutecourse import runtime\n"
    "from cutecourse.kernels import micro_gemm\n"
    "print(runtime.compile(micro_gemm).ptx.sha256, 'cutlass' in sys.modules)\n"
)


def compile_in_a_process(folder: str) -> list[str]:
    environment = {**os.environ, kept.CACHE_VARIABLE: folder}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return done.stdout.split()


def key(spec: LaunchSpec) -> str | None:
    return kept.key_of(spec, spec.target, line_info=spec.language == "cutedsl")


def test_kept__saves_a_later_process_the_compiler(tmp_path: Path) -> None:
    first = compile_in_a_process(str(tmp_path))
    [file] = tmp_path.iterdir()
    assert file.name == f"{key(micro_gemm.LAUNCH)}.ptx"
    assert compile_in_a_process(str(tmp_path)) == [first[0], "False"]
    assert first[1] == "True"


def test_kept__is_the_compilers_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kept.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr(compiling, "_cache", {})
    fresh = runtime.compile(micro_gemm)
    compiling._cache.clear()
    again = runtime.compile(micro_gemm)
    assert again is not fresh
    assert (again.ptx, again.entry, again.target) == (fresh.ptx, fresh.entry, fresh.target)


def test_kept__believes_no_file_that_was_edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kept.CACHE_VARIABLE, str(tmp_path))
    kept.keep("a" * 64, ".version 8.8\r\n// × \n")
    assert kept.kept("a" * 64) == ".version 8.8\r\n// × \n"
    [file] = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    assert kept.kept("a" * 64) is None


@pytest.mark.parametrize("folder", ["off", "/dev/null/no-folder"])
def test_kept__is_nothing_where_it_is_off_or_cannot_be_written(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(kept.CACHE_VARIABLE, folder)
    kept.keep("a" * 64, "text")
    assert kept.kept("a" * 64) is None
    assert not Path("off").exists()


def test_key__differs_between_all_kernels_of_the_course() -> None:
    specs = {
        spec
        for chapter in CHAPTERS
        for name in chapter.kernels
        for spec in vars(kernel_module(name)).values()
        if isinstance(spec, LaunchSpec) and spec.language != "ptx"
    }
    keys = {spec: key(spec) for spec in specs}
    # These files import more of the course than kernels' files, so more decides their texts.
    assert {spec.name for spec in specs if keys[spec] is None} == {"umma_classes", "fp8_gemm"}
    known = [spec for spec in specs if keys[spec] is not None]
    assert len({keys[spec] for spec in known}) == len(known) > 60


def test_key__follows_what_decides_the_text() -> None:
    spec = micro_gemm.LAUNCH
    first, *others = spec.params
    assert isinstance(first, Tensor)
    file = spec.host.file
    changed = KernelFile(file.name, file.text + "\n# more\n")
    keys = [
        key(spec),
        kept.key_of(spec, "sm_90", line_info=True),
        kept.key_of(spec, spec.target, line_info=False),
        key(dataclasses.replace(spec, name="other")),
        key(
            dataclasses.replace(spec, params=(Tensor(first.name, "bf16", first.shape, first.stride), *others))
        ),
        key(dataclasses.replace(spec, host=spec.host.of(changed))),
        key(copy_threads.LAUNCH),
        key(copy_threads.DOWN),
        key(umma_gemm.gemm_spec((256, 512, 64), cluster=(2, 2))),
        key(umma_gemm.gemm_spec((256, 512, 64), cluster=(2, 1))),
    ]
    assert None not in keys
    assert len({*keys}) == len(keys)
    assert key(dataclasses.replace(spec)) == keys[0]


def test_key__follows_the_compilers_version_and_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key(micro_gemm.LAUNCH)
    monkeypatch.setenv("CUTE_DSL_NO_SOURCE_LOCATION", "1")
    assert key(micro_gemm.LAUNCH) not in (before, None)
    monkeypatch.delenv("CUTE_DSL_NO_SOURCE_LOCATION")
    monkeypatch.setattr(kept, "_versions", lambda: ("another",))
    assert key(micro_gemm.LAUNCH) not in (before, None)


def test_key__follows_the_kernels_files_that_a_file_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    importing = KernelFile(
        "small", "from cutecourse.kernels.umma.umma_tile.source import TILE\ndef host(a): ..."
    )
    spec = LaunchSpec(
        name="small",
        language="cutedsl",
        host=importing.function("host"),
        grid=1,
        block=1,
        params=(Tensor("a", "f32", 4),),
    )
    before = key(spec)
    monkeypatch.setattr(kept, "kernel_file", lambda name: KernelFile(name, "TILE = 1"))
    assert key(spec) not in (before, None)


def test_key__is_none_for_what_is_no_file_or_prints() -> None:
    def of_a_cell(a):
        pass

    importing = KernelFile("imports", "from cutecourse.layout import Layout\ndef host(a): ...\n")
    printing = KernelFile("prints", "def host(a):\n    print(a)\n")
    given = {"language": "cutedsl", "grid": 1, "block": 1, "params": (Tensor("a", "f32", 4),)}
    assert key(LaunchSpec(name="cell", host=of_a_cell, **given)) is None
    assert key(LaunchSpec(name="prints", host=printing.function("host"), **given)) is None
    assert key(LaunchSpec(name="imports", host=importing.function("host"), **given)) is None
    assert key(umma_parts.parts_spec(of_a_cell, umma_parts.epilogue)) is None


def test_key__is_none_for_a_file_that_changed_after_the_process_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept, "_STARTED", 0.0)
    assert key(micro_gemm.LAUNCH) is None
    monkeypatch.setattr(kept, "_STARTED", time.time())
    assert key(micro_gemm.LAUNCH) is not None
