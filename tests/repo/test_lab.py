"""`make lab`: the whole course is in JupyterLab's file browser, and nobody is asked about news."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest


def _command(repository: Path, *arguments: str) -> str:
    """What `make lab` would run, in this test's environment."""
    outer = {"ARGS", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "PYTHON", "VENV"}
    clean = {name: value for name, value in os.environ.items() if name not in outer}
    plan = ["make", "--no-print-directory", "-n", "lab", "VENV=an-environment", f"ARGS={' '.join(arguments)}"]
    text = subprocess.run(plan, capture_output=True, text=True, cwd=repository, env=clean, check=True).stdout
    command = text[text.index("JUPYTER_CONFIG_PATH") :]
    return command.replace("an-environment/bin/jupyter lab", f"exec {sys.executable} -m jupyterlab")


@pytest.fixture(scope="module")
def lab(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start what `make lab` starts, without a browser, and yield its address."""
    home = tmp_path_factory.mktemp("lab")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    flags = ["--no-browser", "--ip=127.0.0.1", f"--port={port}", "--IdentityProvider.token=", "--allow-root"]
    folders = ("JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR")
    environment = {**os.environ, **{name: str(home / name) for name in (*folders, "JUPYTER_RUNTIME_DIR")}}
    with (home / "log").open("w") as log:
        process = subprocess.Popen(
            _command(repository, *flags),
            shell=True,
            cwd=repository,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        url = f"http://127.0.0.1:{port}"
        try:
            _wait(url, process, home / "log")
            yield url
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=30)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"{url}/api", timeout=5).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
        else:
            return
    pytest.fail(f"JupyterLab did not start:\n{log.read_text()}")


def test_lab__opens_on_the_chapters_with_the_exercises_in_reach(lab: str) -> None:
    with urllib.request.urlopen(f"{lab}/", timeout=30) as first:
        assert first.url == f"{lab}/lab/tree/notebooks"
    for file in ("notebooks/01_hello_layout.ipynb", "exercises/01_hello_layout.ipynb"):
        with urllib.request.urlopen(f"{lab}/api/contents/{file}?content=0", timeout=30) as answer:
            assert json.load(answer)["path"] == file


def test_lab__asks_nobody_about_news(lab: str) -> None:
    with urllib.request.urlopen(f"{lab}/lab", timeout=30) as page:
        config = json.loads(
            re.search(r'id="jupyter-config-data"[^>]*>(.*?)</script>', page.read().decode(), re.DOTALL)[1]
        )
    assert "@jupyterlab/apputils-extension:announcements" in config["disabledExtensions"]
