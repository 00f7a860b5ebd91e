"""A new kernel with a twin and two faults is a folder and nothing else: it is found, run and tested."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernels import test_faults, test_ptx_twins

from cutecourse import kernels
from cutecourse.kernels.files import kernel_names

FOLDER = {
    "__init__.py": '''"""How `add_numbers` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor

FILE = kernel_file("add_numbers")
__getattr__ = FILE.attribute  # the kernel's constants and functions

LAUNCH = LaunchSpec(
    name="add_numbers",
    language="numba",
    kernel=FILE.function("add_numbers"),
    grid=(2, 1, 1),
    block=(FILE.constant("THREADS"), 1, 1),
    params=(Tensor("out", "s32", 64), Tensor("a", "s32", 64)),
)
''',
    "source.py": '''"""Each thread adds its number to its element."""

from numba import cuda

THREADS = 32


@cuda.jit
def add_numbers(out, a):
    i = cuda.grid(1)
    out[i] = a[i] + i
''',
    "twin.ptx": """// Each thread adds its number to its element.
.version 7.0
.target sm_80
.address_size 64

.visible .entry add_numbers(.param .u64 out, .param .u64 a)
{
    .reg .b32 %i, %block, %threads, %value;
    .reg .b64 %out, %a, %offset;

    mov.u32             %i, %tid.x;
    mov.u32             %block, %ctaid.x;
    mov.u32             %threads, %ntid.x;
    mad.lo.u32          %i, %block, %threads, %i;
    mul.wide.u32        %offset, %i, 4;
    ld.param.u64        %out, [out];
    ld.param.u64        %a, [a];
    cvta.to.global.u64  %out, %out;
    cvta.to.global.u64  %a, %a;
    add.u64             %out, %out, %offset;
    add.u64             %a, %a, %offset;
    ld.global.s32       %value, [%a];
    add.s32             %value, %value, %i;
    st.global.s32       [%out], %value;
    ret;
}
""",
    "faults.py": '''"""What a first version did wrong."""

from cutecourse.kernels.faults import Fault, by_name

FAULTS = by_name(
    __name__,
    Fault(
        "behind_the_end",
        "the last thread writes behind the array",
        source=(("out[i] =", "out[i + 1] ="),),
        twin=(("[%out], %value;", "[%out + 4], %value;"),),
        reports=("AddressError",),
    ),
    Fault(
        "adds_one",
        "every thread adds 1, not its number",
        source=(("a[i] + i", "a[i] + 1"),),
        twin=(("%value, %value, %i;", "%value, %value, 1;"),),
        unreported="only the numbers are wrong",
    ),
)
''',
}


@pytest.fixture
def new_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a new kernel in a new theme, which stands where the package looks for its themes."""
    folder = tmp_path / "trial" / "add_numbers"
    folder.mkdir(parents=True)
    (tmp_path / "trial" / "__init__.py").write_text('"""A theme."""\n')
    for name, text in FOLDER.items():
        (folder / name).write_text(text)
    monkeypatch.setattr(kernels, "__path__", [*kernels.__path__, str(tmp_path)])
    yield folder
    for name in [name for name in sys.modules if name.startswith("cutecourse.kernels.trial")]:
        del sys.modules[name]


def test_new_kernel__is_found_by_its_name(new_kernel: Path) -> None:
    from cutecourse.kernels import add_numbers

    assert add_numbers.LAUNCH.module == "add_numbers"
    assert "add_numbers" in kernel_names()
    assert "add_numbers" in dir(kernels)
    assert kernels.kernel_files("add_numbers") == tuple(sorted(new_kernel / name for name in FOLDER))


@pytest.mark.compilers
def test_new_kernels_twin_and_faults__are_tested_like_those_of_all_kernels(new_kernel: Path) -> None:
    assert any(param.values == ("add_numbers", "emulator") for param in test_ptx_twins.launches())
    test_ptx_twins.test_twin__gives_what_its_kernel_gives("add_numbers", "emulator")
    test_ptx_twins.test_twin__has_the_launch_and_the_target_of_its_kernel("add_numbers")
    mine = [param.values for param in test_faults.faults() if param.values[0] == "add_numbers.faults"]
    assert [fault.name for _, fault in mine] == ["behind_the_end", "adds_one"]
    for module, fault in mine:
        test_faults.test_fault__is_reported_alike_in_the_kernel_and_in_its_twin(module, fault)
    wrong = dataclasses.replace(mine[0][1], reports=("DeadlockError",))
    with pytest.raises(AssertionError):
        test_faults.test_fault__is_reported_alike_in_the_kernel_and_in_its_twin("add_numbers.faults", wrong)
