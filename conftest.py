"""What the notebooks' tests need wherever they are called from; the rest is in tests/conftest.py."""

import contextlib
import sys

from support.kernels import patient

# A kernel's file imports its compiler, and without the compiler its text is read all the same.
# The DSL's workers have no doctests, and a process that imports them imports the DSL.
collect_ignore_glob = [
    "lib/cutecourse/kernels/*/*/source.py",
    "tests/*/dsl_worker.py",
]
if sys.platform != "linux":
    collect_ignore_glob.append("tests/emulator/test_processes.py")  # elsewhere the emulator makes no copies
if sys.platform == "win32":
    collect_ignore_glob.append("tests/emulator/test_sanitizer.py")  # its tools are scripts that begin with #!

with contextlib.suppress(ImportError):  # nbval is an extra of the tests
    from nbval import kernel

    kernel.start_new_kernel = patient(kernel.start_new_kernel)
