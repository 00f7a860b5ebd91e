"""What all tests share: what the markers need, the browser fixtures, and a summary that hides no skip."""

from __future__ import annotations

import contextlib
import gc
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from support import machine, unchanged, web

_REASONS = {
    "gpu": (
        f"no NVIDIA GPU of compute capability {machine.MIN_COMPUTE_CAPABILITY[0]}."
        f"{machine.MIN_COMPUTE_CAPABILITY[1]} or later on this machine "
        "('make test-gpu' runs these tests where there is one)"
    ),
    "compilers": "no kernel compiler on this machine (they exist for Linux only)",
    "long": "it takes long: 'make test-all' runs it",
    "inputs": "its inputs have not changed since it passed: 'make test-all' runs it again",
    "browser": (
        "no Chromium on this machine (Debian: 'apt-get install chromium'; elsewhere set CUTECOURSE_CHROMIUM "
        "to its path)"
    ),
}
_NAMES_SHOWN_AT_MOST = 30
_LEFT_OUT = pytest.StashKey[Counter[tuple[str, str]]]()


# The emulator makes many small objects, and a worker holds all tests: Python's usual thresholds would have it
# look through them for garbage in a tenth of its time.
gc.set_threshold(50_000, 20, 100)


def _need(reason: str, *, required: bool, because: str) -> None:
    """Skip for a reason, or fail where the caller requires what is missing."""
    if required:
        pytest.fail(f"{reason}; {because}, so this is a failure and not a skip", pytrace=False)
    pytest.skip(reason)


def _reason_to_leave_out(item: pytest.Item) -> str | None:
    """Why a test is not even made an item of this run, or None."""
    if item.get_closest_marker("gpu") and machine.find_gpu() is None and not machine.gpu_required():
        return _REASONS["gpu"]
    if item.get_closest_marker("compilers") and not machine.has_compilers():
        return _REASONS["compilers"]
    if machine.everything():
        return None
    if item.get_closest_marker("long"):
        return _REASONS["long"]
    if unchanged.passed(item):
        return _REASONS["inputs"]
    return None


def _outside_the_samples(items: list[pytest.Item]) -> set[str]:
    """The cases of tests marked `sample(n)` that are not among the n, which are spread over all cases."""
    cases: dict[str, list[str]] = defaultdict(list)
    wanted: dict[str, int] = {}
    for item in items:
        if (marker := item.get_closest_marker("sample")) is not None:
            function = item.nodeid.partition("[")[0]
            cases[function].append(item.nodeid)
            wanted[function] = marker.args[0]
    outside = set()
    for function, names in cases.items():
        step = max(1, len(names) // wanted[function])
        outside.update(set(names) - set(names[::step][: wanted[function]]))
    return outside


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not for this machine or this run; the summary counts it all the same."""
    reasons = {item.nodeid: _reason_to_leave_out(item) for item in items}
    if not machine.everything():
        cases = [item for item in items if reasons[item.nodeid] is None]
        reasons |= dict.fromkeys(_outside_the_samples(cases), _REASONS["long"])
    left_out = Counter(
        (reason, name.partition("::")[0]) for name, reason in reasons.items() if reason is not None
    )
    items[:] = [item for item in items if reasons[item.nodeid] is None]
    config.stash[_LEFT_OUT] = left_out


def pytest_collection_finish() -> None:
    """Take the tests themselves out of what the garbage collector looks through."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand what was left out from a worker to the process that writes the summary."""
    if hasattr(session.config, "workeroutput"):
        left_out = session.config.stash.get(_LEFT_OUT, Counter())
        session.config.workeroutput["left_out"] = [(*key, count) for key, count in left_out.items()]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a worker left out: each worker collects all tests, so the last word is everyone's."""
    rows = getattr(node, "workeroutput", {}).get("left_out", [])
    node.config.stash[_LEFT_OUT] = Counter({(reason, file): count for reason, file, count in rows})


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Note that a test passed with its inputs, where that is recorded (`python -m tools.record_inputs`)."""
    if call.when == "call" and call.excinfo is None:
        unchanged.note(item)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Hold each marked test to what its marker says it needs."""
    if item.get_closest_marker("gpu") and machine.find_gpu() is None:
        _need(_REASONS["gpu"], required=machine.gpu_required(), because="CUTECOURSE_REQUIRE_GPU=1")
    for marker in item.iter_markers("gpu"):
        # An older GPU is no fault of the machine: what it cannot run is listed as not run.
        for target in marker.args:
            if (reason := machine.too_old_for(target)) is not None:
                pytest.skip(reason)
    if item.get_closest_marker("browser") and machine.find_chromium() is None:
        _need(_REASONS["browser"], required=machine.in_ci(), because="CI=true")
    for marker in item.iter_markers("program"):
        for name in marker.args:
            if machine.find_program(name) is None:
                pytest.skip(f"no {name} on this machine (it comes with the CUDA toolkit)")


@pytest.fixture(scope="session")
def repository() -> Path:
    """Return the repository's root."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def tracked(repository: Path) -> list[Path]:
    """Return the files that belong to the repository; skips where it is no git clone."""
    run = subprocess.run(
        ["git", "ls-files", "-z"], capture_output=True, text=True, cwd=repository, timeout=60
    )
    if run.returncode:
        pytest.skip("this is no git clone, so there are no tracked files to look at")
    paths = [repository / name for name in run.stdout.split("\0") if name]
    assert len(paths) > 50
    return [path for path in paths if path.is_file()]


@pytest.fixture(scope="session")
def find_program() -> Callable[[str], Path | None]:
    """Return the function that finds `nvcc`, `ptxas` and the like, as the `program` marker does."""
    return machine.find_program


@pytest.fixture(scope="session")
def chromium_path() -> Path:
    """Return Chromium's path; use it in tests marked `browser` only."""
    path = machine.find_chromium()
    if path is None:
        _need(_REASONS["browser"], required=machine.in_ci(), because="CI=true")
    assert path is not None
    return path


# Not of session scope: Playwright's sync API keeps an event loop running in the process while it is
# open, and tests of other modules run notebooks through clients that then find that loop.
@pytest.fixture(scope="module")
def browser(chromium_path: Path) -> Iterator[Any]:
    """Start headless Chromium through Playwright, once a test module."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(chromium_path), headless=True, args=web.launch_arguments()
        )
        try:
            yield browser
        finally:
            browser.close()


@pytest.fixture
def browser_context(browser: Any) -> Iterator[Any]:
    """Open a context that reaches only this machine; the test fails if a page tried more or threw."""
    with web.guarded_context(browser) as context:
        yield context


@pytest.fixture
def page(browser_context: Any) -> Any:
    """Open a page in a context that reaches only this machine."""
    return browser_context.new_page()


@pytest.fixture(scope="module")
def _keep_page(browser: Any) -> Iterator[Callable[[], Any]]:
    """Return the function that opens a page, or returns the one that is open."""
    with contextlib.ExitStack() as contexts:
        pages: list[Any] = []

        def page() -> Any:
            if not pages or pages[-1].is_closed():
                pages.append(contexts.enter_context(web.guarded_context(browser)).new_page())
            return pages[-1]

        yield page


@pytest.fixture
def kept_page(_keep_page: Callable[[], Any]) -> Iterator[Any]:
    """Return a page that the tests of a module share, for those that change nothing but what they open in it.

    A page of its own costs a test a new process of Chromium. What a test stores belongs to its server's port.
    """
    page = _keep_page()
    page.set_viewport_size({"width": 1280, "height": 720})
    page.emulate_media(media="null", color_scheme="light", reduced_motion="null")
    page.mouse.move(0, 0)
    yield page
    assert page.context.outside == []
    assert page.context.errors == []


@pytest.fixture(scope="session")
def serve() -> Callable[..., Any]:
    """Return `support.web.serve`: `with serve(folder) as url: page.goto(url + "/index.html")`."""
    return web.serve


def _skip_reason(report: pytest.TestReport) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")


def skip_table(skipped: list[tuple[str, str]], left_out: Counter[tuple[str, str]]) -> list[str]:
    """Return the lines of the summary: each reason with its count, and below it which tests.

    `skipped` holds (reason, test id), `left_out` how many tests by (reason, file). A long group is told by
    file with counts, except for the cases that are not yet recorded on hardware.
    """
    groups: dict[str, list[str]] = defaultdict(list)
    for reason, test in [*skipped, *left_out.elements()]:
        groups[reason].append(test)
    lines = []
    for reason, tests in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])):
        lines.append(f"{len(tests)} did not run: {reason}")
        few = len(tests) <= _NAMES_SHOWN_AT_MOST or reason == machine.NOT_YET_RECORDED
        if few and all("::" in test for test in tests):
            lines += [f"    {test}" for test in sorted(tests)]
        else:
            files: dict[str, int] = defaultdict(int)
            for test in tests:
                files[test.partition("::")[0]] += 1
            lines += [f"    {file}: {count}" for file, count in sorted(files.items())]
    return lines


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: Any) -> Generator[None, None, None]:
    """Say last, below pytest's own summaries, what did not run and why."""
    yield
    skipped = [(_skip_reason(report), report.nodeid) for report in terminalreporter.stats.get("skipped", [])]
    left_out = terminalreporter.config.stash.get(_LEFT_OUT, Counter())
    if not skipped and not left_out:
        return
    terminalreporter.section("TESTS THAT DID NOT RUN ON THIS MACHINE", sep="=", yellow=True, bold=True)
    for line in skip_table(skipped, left_out):
        terminalreporter.write_line(line, yellow=not line.startswith(" "))
