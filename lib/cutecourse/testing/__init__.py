"""Tests of kernels without a GPU: `check` runs a kernel under several seeds and fails with the report.

`check` works in any test framework. For pytest the package brings a plugin, which pytest finds by itself: the
fixture `cutecourse_check` is `check` with the options `--cutecourse-seeds`, `--cutecourse-allow`,
`--cutecourse-suppress` and `--cutecourse-keep-going`, and a failure shows the PTX around the line. Nothing
here imports pytest but the plugin.
"""

from cutecourse.testing.checking import CheckedRun, KernelFailure, Output, check

__all__ = ["CheckedRun", "KernelFailure", "Output", "check"]
