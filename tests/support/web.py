"""A folder served on this machine, and a headless Chromium that may reach nothing else."""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import threading
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

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
    # Without these, Chromium itself asks the outside for updates, whatever the page does.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
"""Arguments for Chromium; :func:`launch_arguments` adds what root needs."""

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


@contextlib.contextmanager
def guarded_context(browser: Any, **options: Any) -> Iterator[Any]:
    """Open a browser context that reaches only this machine, and fail if it tried more.

    Requests to the outside are aborted and noted; uncaught JavaScript errors are noted. Leaving the
    context fails with both lists unless they are empty. `context.outside` and `context.errors` are
    the lists, for a test that expects an entry: take it out of the list.
    """
    context = browser.new_context(**options)
    context.outside = []
    context.errors = []

    def route(route: Any) -> None:
        if is_local(route.request.url):
            route.continue_()
        else:
            context.outside.append(route.request.url)
            route.abort()

    def socket(socket: Any) -> None:
        if is_local(socket.url):
            socket.connect_to_server()
        else:
            context.outside.append(socket.url)

    context.route("**/*", route)
    context.route_web_socket("**/*", socket)
    context.on("weberror", lambda error: context.errors.append(str(error.error)))
    try:
        yield context
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
