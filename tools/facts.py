"""Facts about the machine that records: what it is, its GPU and driver, the commit, the date."""

from __future__ import annotations

import datetime as dt
import os
import platform
import subprocess

from tools.paths import ROOT


def of_this_machine() -> dict[str, object]:
    """Date, machine, GPU, driver and commit, as they go into a recording."""
    name, driver = gpu()
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPU cores",
        "gpu": name,
        "driver": driver,
        "commit": commit(),
    }


def gpu() -> tuple[str | None, str | None]:
    """Name and driver version of the first NVIDIA GPU, or (None, None)."""
    try:
        answer = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None, None
    if answer.returncode != 0 or not answer.stdout.strip():
        return None, None
    name, driver = answer.stdout.splitlines()[0].split(",", 1)
    return name.strip(), driver.strip()


def commit() -> str | None:
    """The commit recorded from: CUTECOURSE_COMMIT where git is absent, else git's HEAD; None if neither."""
    given = os.environ.get("CUTECOURSE_COMMIT")
    if given:
        return given[:12]
    try:
        answer = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return None
    return answer.stdout.strip()[:12] if answer.returncode == 0 else None
