"""A folder served here, a headless Chromium that may reach nothing else, and waits that see work."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import http.server
import os
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

# Each window of a headless Chromium would load the popups of an address bar that nobody sees: a process and
# half a second a test. Chromium takes the last list alone, so this one repeats Playwright's.
_FEATURES_OFF = [
    "WebUIOmniboxAimPopup",
    "WebUIOmniboxPopup",
    "AimEnabled",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "LensOverlay",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
    "TcpPortRandomizationWin",
    "ThirdPartyStoragePartitioning",
]
CHROMIUM_ARGS = [
    f"--disable-features={','.join(_FEATURES_OFF)}",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    # Nothing else has an address, whoever asks.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    # Without these, Chromium itself asks the outside for updates, whatever the page does.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
"""Arguments for Chromium; :func:`launch_arguments` adds what root needs."""

LIMIT_S = 540
"""A wait ends here at the latest, before pytest ends the test."""
_LOOK_S = 5
_IDLE_LOOKS = 6
_WORKING = 0.02
"""Parts of a core. Processes that take less are idle."""
_READY = {psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP}

_LOCAL_HOSTS = {"127.0.0.1", "localhost", "::1"}
_LOCAL_SCHEMES = {"file", "data", "blob", "about"}


def launch_arguments() -> list[str]:
    """Return Chromium's arguments for this user: root has no sandbox."""
    return [*CHROMIUM_ARGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]


def is_local(url: str) -> bool:
    """Tell whether a request stays on this machine.

    >>> is_local("http://127.0.0.1:8000/index.html"), is_local("blob:http://localhost/1")
    (True, True)
    >>> is_local("https://example.org/a.js")
    False
    """
    parts = urlsplit(url)
    return parts.scheme in _LOCAL_SCHEMES or parts.hostname in _LOCAL_HOSTS


class _Handler(http.server.SimpleHTTPRequestHandler):
    def __init__(self, *args: Any, cut: Collection[str], **options: Any) -> None:
        self.cut = cut
        super().__init__(*args, **options)

    def end_headers(self) -> None:
        """Let no browser keep an answer: `cut` is about each request."""
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, *args: Any) -> None:
        """Keep requests out of the tests' output."""

    def copyfile(self, source: Any, outputfile: Any) -> None:
        if not any(name in self.path for name in self.cut):
            # A page may end a fetch.
            with contextlib.suppress(ConnectionError):
                super().copyfile(source, outputfile)
            return
        data = source.read()
        outputfile.write(data[: len(data) // 2])
        self.close_connection = True


@contextlib.contextmanager
def serve(folder: str | os.PathLike[str], *, cut: Collection[str] = ()) -> Iterator[str]:
    """Serve a folder on a free port of the loopback address and yield its URL (no slash at the end).

    cut   parts of addresses: answers to these break off halfway. It is looked at for each request.
    """
    handler = functools.partial(_Handler, directory=str(Path(folder).resolve()), cut=cut)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Work:
    """Tells whether a process and all below it do anything: they take CPU time, or are ready to."""

    def __init__(self, pid: int | None = None) -> None:
        self._process = psutil.Process(pid)
        self._idle_looks = 0
        self._at, (self._seconds, _) = time.monotonic(), self._taken()

    def _taken(self) -> tuple[float, bool]:
        """Their CPU seconds, and whether one of them but this process is ready to run or waits for a disk."""
        total, ready = 0.0, False
        for process in (self._process, *self._process.children(recursive=True)):
            with contextlib.suppress(psutil.Error), process.oneshot():
                times = process.cpu_times()
                total += times.user + times.system
                ready |= process.status() in _READY and process.pid != os.getpid()
        return total, ready

    def has_ended(self) -> bool:
        """Return whether nothing worked during the last half minute; call it every `_LOOK_S` seconds."""
        now, (seconds, ready) = time.monotonic(), self._taken()
        # A process that ends takes its time out of the sum.
        working = ready or abs(seconds - self._seconds) > _WORKING * (now - self._at)
        self._at, self._seconds = now, seconds
        self._idle_looks = 0 if working else self._idle_looks + 1
        return self._idle_looks >= _IDLE_LOOKS


def wait_for_server(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server answers.

    Errors: AssertionError with the end of its log if the server ends, or does nothing more.
    """
    work, end = Work(process.pid), time.monotonic() + LIMIT_S
    look = time.monotonic() + _LOOK_S
    while process.poll() is None and time.monotonic() < end:
        try:
            urllib.request.urlopen(url, timeout=LIMIT_S).close()
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.2)
        else:
            return
        if time.monotonic() > look:
            if work.has_ended():
                break
            look = time.monotonic() + _LOOK_S
    raise AssertionError(f"{url} does not answer:\n{log.read_text()[-3000:]}")


def _end_hopeless_waits(context: Any, hopeless: list[str]) -> Callable[[], None]:
    """Close a context, which ends all waits in it, when nobody works for it any more.

    Playwright's event loop runs while a test waits, so that is when this looks. Returns the way to stop it.
    """
    from greenlet import greenlet

    loop, work = asyncio.get_running_loop(), Work()

    def look() -> None:
        nonlocal timer
        if work.has_ended():
            hopeless.append("the test waited, and neither the browser nor anything else did any work")
            greenlet(context.close).switch()
        else:
            timer = loop.call_later(_LOOK_S, look)

    timer = loop.call_later(_LOOK_S, look)
    return lambda: timer.cancel()  # noqa: PLW0108 - the timer of that moment


@contextlib.contextmanager
def guarded_context(browser: Any, **options: Any) -> Iterator[Any]:
    """Open a browser context that reaches only this machine, and fail if it tried more.

    Requests to the outside fail and are noted, uncaught JavaScript errors are noted. Leaving the context
    fails with both lists unless they are empty. `context.outside` and `context.errors` are the lists, for a
    test that expects an entry: take it out of the list.

    No wait in the context ends after a fixed time: it lasts while the browser and the processes of the test
    work, for `LIMIT_S` seconds at most. An uncaught JavaScript error ends it at once.
    """
    context = browser.new_context(**options)
    context.set_default_timeout(LIMIT_S * 1000)
    context.outside = []
    context.errors = []

    def asked(url: str) -> None:
        if not is_local(url):
            context.outside.append(url)

    def failed(error: Any) -> None:
        context.errors.append(str(error.error))
        context.close()

    context.on("request", lambda request: asked(request.url))
    context.on("page", lambda page: page.on("websocket", lambda socket: asked(socket.url)))
    context.on("weberror", failed)
    hopeless: list[str] = []
    stop = _end_hopeless_waits(context, hopeless)
    try:
        try:
            yield context
        finally:
            stop()
            assert hopeless == [], hopeless[0]
            assert context.outside == [], f"requests to the outside: {context.outside}"
            assert context.errors == [], f"JavaScript errors: {context.errors}"
    finally:
        context.close()


def hold_answer(page: Any, book: str) -> Callable[[], None]:
    """Hold the answer of Python's next run on a page back, until the function that is returned is called.

    book   the page's global object that has `python`: `cutecourseBook` or `cutecoursePlayground`.
    """
    page.evaluate(
        """(book) => {
          const { python } = globalThis[book];
          const { run } = python;
          const held = new Promise((go) => { globalThis.goOn = go; });
          python.run = async (source) => {
            delete python.run;
            const answer = await run.call(python, source);
            await held;
            return answer;
          };
        }""",
        book,
    )
    return lambda: page.evaluate("goOn()")
