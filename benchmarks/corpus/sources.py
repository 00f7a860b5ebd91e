"""The published packages that have the kernels, and the environments that compile them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

__all__ = ["COMPILERS", "CRASHED", "PACKAGES", "Nvcc", "Worker", "package_folder"]

PACKAGES = {
    "liger": "liger-kernel==0.8.5",
    "conch": "conch-triton-kernels==1.3",
    "fla": "fla-core==0.6.0",
    "gems": "flag-gems==5.0.2",
    "sage": "sageattention==1.0.6",
    "quack": "quack-kernels==0.6.5",
    "flashinfer": "flashinfer-python==0.7.2.post1",
    "cccl": "nvidia-cuda-cccl==13.3.4.3.1",
    "cutlass": "flashinfer-python==0.7.2.post1",
    "flash": "flash-attn-4==4.0.0b36",
    "unsloth": "unsloth==2026.10.9",
}
"""The requirement for pip, by the name that entries use. FlashInfer's has CUTLASS's examples in it."""

COMPILERS = {
    "triton": ("triton==3.9.0", "torch==2.13.0", "numpy", "packaging", "einops"),
    "dsl": (
        "nvidia-cutlass-dsl==4.8.1",
        "quack-kernels==0.6.5",
        "flash-attn-4==4.0.0b36",
        "triton==3.9.0",
        "torch==2.13.0",
    ),
}
"""What is installed in a compiler's environment."""

CRASHED = "the compiler crashed"
"""The problem of a kernel for which a compiler gave no answer at all."""


def _pip(python: Path | str, *arguments: str) -> None:
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *arguments], check=True)


def package_folder(name: str, work: Path, given: dict[str, str]) -> Path:
    """The folder with a package's files, installed into `work` where the user names none.

    A package that is in a compiler's environment has no folder of its own: `work` stands for it.
    """
    if name in given and given[name] != "PYPI":
        return Path(given[name])
    requirement = PACKAGES[name]
    if any(requirement in installed for installed in COMPILERS.values()):
        return work
    folder = work / "packages" / requirement.replace("==", "-")
    if not folder.is_dir():
        _pip(sys.executable, "--no-deps", "--pre", "--target", str(folder), requirement)
    return folder


def environment(compiler: str, work: Path) -> Path:
    """The Python of the compiler's environment, which is made where there is none."""
    folder = work.absolute() / f"compiler-{compiler}"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True, clear=True)
        _pip(python, "--pre", *COMPILERS[compiler])
        (folder / "ready").touch()
    return python


class Worker:
    """A compiler in its own process. It is started when it is first asked, and again after a crash."""

    def __init__(self, compiler: str, arch: str, work: Path) -> None:
        self.compiler, self.arch, self.work = compiler, arch, work
        self.process: subprocess.Popen[str] | None = None

    def _settings(self) -> dict[str, str]:
        """What the compilers read from the environment: Triton's default, and the DSL's target."""
        if self.compiler == "triton":
            return {"TRITON_DEFAULT_FP_FUSION": "1"}
        dump = self.work / "dump"
        dump.mkdir(exist_ok=True)
        family = self.arch.rstrip("a")
        return {"CUTE_DSL_ARCH": self.arch, "CUTE_DSL_KEEP_PTX": "1", "CUTE_DSL_DUMP_DIR": str(dump),
                "QUACK_CACHE_ENABLED": "0", "QUACK_ARCH": family, "FLASH_ATTENTION_ARCH": family,
                "FLASH_ATTENTION_NUM_SMS": "132"}  # fmt: skip

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request: the PTX text with its launch, or `problem`."""
        if self.process is None:
            script = Path(__file__).with_name(f"{self.compiler}_worker.py")
            self.process = subprocess.Popen(
                [str(environment(self.compiler, self.work)), str(script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**os.environ, "PYTHONPATH": "", "CUDA_VISIBLE_DEVICES": "", **self._settings()},
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            for line in self.process.stdout:
                if line.startswith("ANSWER "):
                    answer: dict[str, Any] = json.loads(line.removeprefix("ANSWER "))
                    return answer
        except BrokenPipeError:
            pass
        self.process = None
        return {"problem": CRASHED}

    def close(self) -> None:
        """End the process."""
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
            self.process.wait()


class Nvcc:
    """CUDA's compiler, which must be on the path."""

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request: the PTX text of a source with a package's headers, or `problem`."""
        folders = [f"-I{Path(request['folder'], one)}" for one in request["include"]]
        with tempfile.TemporaryDirectory() as place:
            source, output = Path(place, "kernel.cu"), Path(place, "kernel.ptx")
            source.write_text(request["text"], encoding="utf-8")
            arch = f"-arch={request['arch']}"
            command = ["nvcc", "-std=c++17", "--expt-relaxed-constexpr", "-w", "-ptx", arch, *folders]
            done = subprocess.run(
                [*command, "-o", output, source], capture_output=True, text=True, check=False
            )
            if done.returncode:
                return {"problem": done.stderr[-2000:]}
            return {"ptx": output.read_text(encoding="utf-8")}

    def close(self) -> None:
        """Nothing is left open."""
