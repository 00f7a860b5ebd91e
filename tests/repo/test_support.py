"""The tests' own helpers: the summary of skips, what a missing program does, the guarded browser."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support import machine, unchanged, web

PROBE = """
import pytest

@pytest.mark.browser
def test_in_a_browser__runs(): pass

@pytest.mark.program("no-such-program")
def test_with_a_program__runs(): pass

@pytest.mark.gpu
def test_on_a_gpu__runs(): pass

@pytest.mark.long
def test_of_many_cases__runs(): pass

@pytest.mark.sample(2)
@pytest.mark.parametrize("case", range(7))
def test_of_cases_alike__runs(case): assert case in (0, 3)

def test_anywhere__runs(): pass
"""


def run_probe(
    repository: Path, folder: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the probe under this repository's conftest.py with a Chromium that is not there and no GPU."""
    (folder / "test_probe.py").write_text(PROBE)
    (folder / "conftest.py").write_text((repository / "tests" / "conftest.py").read_text())
    markers = "markers =\n  gpu\n  long\n  sample\n  inputs\n  browser\n  program"
    settings = f"[pytest]\npythonpath = {repository / 'tests'} {repository}\n{markers}\n"
    (folder / "pytest.ini").write_text(settings)
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in {"CI", "CUTECOURSE_REQUIRE_GPU", "CUTECOURSE_TEST_ALL"}
    }
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "xdist", *arguments, str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
        env={
            **clean,
            "CUTECOURSE_CHROMIUM": str(folder / "no-chromium"),
            "CUDA_VISIBLE_DEVICES": "",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            **environment,
        },
    )


@pytest.mark.parametrize("workers", [[], ["-n", "2", "--dist", "loadfile"]], ids=["one-process", "xdist"])
def test_summary__names_every_test_that_did_not_run(
    repository: Path, tmp_path: Path, workers: list[str]
) -> None:
    result = run_probe(repository, tmp_path, *workers)
    assert result.returncode == 0, result.stdout
    _, _, summary = result.stdout.partition("TESTS THAT DID NOT RUN ON THIS MACHINE")
    assert "1 did not run: no Chromium on this machine" in summary
    assert "test_probe.py::test_in_a_browser__runs" in summary
    assert "1 did not run: no no-such-program on this machine" in summary
    assert "1 did not run: no NVIDIA GPU" in summary
    # Nothing but pytest's closing line stands below it.
    assert "    test_probe.py: 1" in summary
    assert "6 did not run: it takes long: 'make test-all' runs it" in summary
    assert "    test_probe.py: 6" in summary
    assert "3 passed, 2 skipped" in summary.splitlines()[-1]


def test_missing_chromium__fails_in_ci(repository: Path, tmp_path: Path) -> None:
    result = run_probe(repository, tmp_path, CI="true")
    assert result.returncode == 1
    assert "no Chromium on this machine" in result.stdout
    assert "3 passed, 1 skipped, 1 error" in result.stdout


def test_missing_gpu__fails_when_required(repository: Path, tmp_path: Path) -> None:
    result = run_probe(repository, tmp_path, "-m", "gpu", CUTECOURSE_REQUIRE_GPU="1")
    assert result.returncode == 1
    assert "no NVIDIA GPU" in result.stdout


def test_skip_table__tells_long_groups_by_file(request: pytest.FixtureRequest, repository: Path) -> None:
    conftest = request.config.pluginmanager.get_plugin(str(repository / "tests" / "conftest.py"))
    assert conftest is not None
    many = [("no GPU", f"tests/a.py::test[{i}]") for i in range(40)] + [("no GPU", "tests/b.py::test")]
    left_out = Counter({("long", "tests/d.py"): 2})
    assert conftest.skip_table([*many, ("slow", "tests/c.py::test")], left_out) == [
        "41 did not run: no GPU",
        "    tests/a.py: 40",
        "    tests/b.py: 1",
        "2 did not run: long",
        "    tests/d.py: 2",
        "1 did not run: slow",
        "    tests/c.py::test",
    ]


def test_skip_table__names_every_case_that_is_not_yet_recorded(
    request: pytest.FixtureRequest, repository: Path
) -> None:
    conftest = request.config.pluginmanager.get_plugin(str(repository / "tests" / "conftest.py"))
    assert conftest is not None
    tests = [f"tests/a.py::test[float/{i}]" for i in range(10, 50)]
    lines = conftest.skip_table([(machine.NOT_YET_RECORDED, test) for test in tests], Counter())
    assert lines[0].startswith("40 did not run: not yet recorded on hardware")
    assert "python -m tools.record_cases" in lines[0]
    assert lines[1:] == [f"    {test}" for test in tests]


@pytest.mark.browser
def test_guarded_context__reaches_this_machine_and_nothing_else(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        "<p id=here>here</p>"
        "<script>fetch('https://example.org/x.json').catch(() => { document.title = 'refused' })</script>"
    )
    with web.serve(tmp_path) as url, web.guarded_context(browser) as context:
        page = context.new_page()
        page.goto(url + "/index.html")
        page.wait_for_function("document.title === 'refused'")
        assert page.inner_text("#here") == "here"
        assert context.outside == ["https://example.org/x.json"]
        context.outside.clear()


@pytest.mark.browser
def test_guarded_context__fails_on_a_page_that_throws(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<script>throw new Error('a defect')</script>")
    with web.serve(tmp_path) as url, pytest.raises(AssertionError, match="a defect"):
        with web.guarded_context(browser) as context:
            page = context.new_page()
            page.goto(url + "/index.html")
            page.wait_for_selector("#never")


@pytest.mark.browser
def test_guarded_context__ends_a_wait_when_nothing_works_for_it(
    browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "_LOOK_S", 0.5)
    monkeypatch.setattr(web, "_WORKING", 0.3)  # a look itself is more of half a second than of five
    with pytest.raises(AssertionError, match="neither the browser nor anything else"):
        with web.guarded_context(browser) as context:
            context.new_page().wait_for_selector("#never")


@pytest.mark.browser
def test_guarded_context__waits_while_the_page_works(browser: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "_LOOK_S", 0.1)
    work = """() => {
      const end = performance.now() + 2000;
      const turn = () => {
        for (const until = performance.now() + 40; performance.now() < until;);
        if (performance.now() < end) setTimeout(turn);
        else document.body.innerHTML = "<p id=late></p>";
      };
      turn();
    }"""
    with web.guarded_context(browser) as context:
        page = context.new_page()
        page.evaluate(work)
        page.wait_for_selector("#late", state="attached")


def test_wait_for_server__ends_with_the_server(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("no port is free")
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"])
    with pytest.raises(AssertionError, match="no port is free"):
        web.wait_for_server("http://127.0.0.1:9/", process, log)


@pytest.mark.parametrize(
    ("gpu", "target", "needs"),
    [
        ((8, 0), "sm_80", None),
        ((8, 9), "sm_90", "8.9, and sm_90 needs 9.0"),
        ((9, 0), "sm_90a", None),
        ((10, 0), "sm_90", None),
        ((10, 0), "sm_100a", None),
        # The letter ties PTX to its generation: a later GPU does not run it either.
        ((10, 0), "sm_90a", "10.0, and sm_90a needs 9.0 exactly"),
        ((10, 3), "sm_100a", "10.3, and sm_100a needs 10.0 exactly"),
        ((12, 0), "sm_100a", "12.0, and sm_100a needs 10.0 exactly"),
        ((10, 3), "sm_100f", None),
        ((12, 0), "sm_100f", "12.0, and sm_100f needs 10.0 or a later 10.x"),
    ],
)
def test_too_old_for__tells_what_the_gpu_has_and_what_is_needed(
    gpu: tuple[int, int], target: str, needs: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "find_gpu", lambda: gpu)
    reason = machine.too_old_for(target)
    assert (reason is None) == (needs is None)
    if needs is not None:
        assert reason == f"this machine's GPU has compute capability {needs}"


def test_passed__has_the_inputs_of_today(request: pytest.FixtureRequest) -> None:
    # Where a program is missing, the test did not run and the closing list says so. Somebody who adds a PTX
    # case needs no ptxas.
    changed = {
        unchanged.key(item)
        for item in request.session.items
        if item.get_closest_marker("inputs")
        and not unchanged.passed(item)
        and all(machine.find_program(name) for marker in item.iter_markers("program") for name in marker.args)
    }
    assert sorted(changed) == [], "run `python -m tools.record_inputs` and commit tests/passed.json"


def test_inputs__are_hashed_with_the_test_and_the_headers(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = request.node
    assert unchanged.hash_of(item) is None
    item.add_marker(pytest.mark.inputs("tests/layout/cpp", "pyproject.toml"))
    before = unchanged.hash_of(item)
    assert before is not None
    assert not unchanged.passed(item)
    monkeypatch.setattr(unchanged, "_recorded", lambda: {unchanged.key(item): before})
    assert unchanged.passed(item)
    monkeypatch.setattr(unchanged, "_headers", lambda: "nvidia-cutlass 0")
    assert not unchanged.passed(item)
    monkeypatch.undo()
    contents = unchanged._contents
    monkeypatch.setattr(unchanged, "_contents", lambda name: contents(name) + "\nanother file")
    assert unchanged.hash_of(item) != before
    item.add_marker(pytest.mark.inputs("no/such/file"), append=False)
    monkeypatch.undo()
    with pytest.raises(FileNotFoundError):
        unchanged.hash_of(item)
