"""What all tests share: what the markers need, the browser fixtures, and a summary that hides no skip."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from support import machine, web

_REASONS = {
    "gpu": (
        f"no NVIDIA GPU of compute capability {machine.MIN_COMPUTE_CAPABILITY[0]}."
        f"{machine.MIN_COMPUTE_CAPABILITY[1]} or later on this machine "
        "('make test-gpu' runs these tests where there is one)"
    ),
    "browser": (
        "no Chromium on this machine (Debian: 'apt-get install chromium'; elsewhere set CUTECOURSE_CHROMIUM "
        "to its path)"
    ),
}
_NAMES_SHOWN_AT_MOST = 30


def _need(reason: str, *, required: bool, because: str) -> None:
    """Skip for a reason, or fail where the caller requires what is missing."""
    if required:
        pytest.fail(f"{reason}; {because}, so this is a failure and not a skip", pytrace=False)
    pytest.skip(reason)


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


@pytest.fixture(scope="session")
def serve() -> Callable[..., Any]:
    """Return `support.web.serve`: `with serve(folder) as url: page.goto(url + "/index.html")`."""
    return web.serve


def _skip_reason(report: pytest.TestReport) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")


def skip_table(skipped: list[tuple[str, str]]) -> list[str]:
    """Return the lines of the summary: each reason with its count, and below it which tests.

    `skipped` holds (reason, test id). A long group is told by file with counts.
    """
    groups: dict[str, list[str]] = defaultdict(list)
    for reason, test in skipped:
        groups[reason].append(test)
    lines = []
    for reason, tests in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])):
        lines.append(f"{len(tests)} did not run: {reason}")
        if len(tests) <= _NAMES_SHOWN_AT_MOST:
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
    if not skipped:
        return
    terminalreporter.section("TESTS THAT DID NOT RUN ON THIS MACHINE", sep="=", yellow=True, bold=True)
    for line in skip_table(skipped):
        terminalreporter.write_line(line, yellow=not line.startswith(" "))
