"""What the notebooks' tests need wherever they are called from; the rest is in tests/conftest.py."""

import contextlib

from support.kernels import patient

with contextlib.suppress(ImportError):  # nbval is an extra of the tests
    from nbval import kernel

    kernel.start_new_kernel = patient(kernel.start_new_kernel)
