"""Where no compiler is installed, everything about a kernel works but its compile, and its twin runs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cutecourse.kernels import kernel_files, umma_parts, umma_two_sm
from cutecourse.kernels.files import KernelFile, KernelFunction, SpecError, kernel_file
from cutecourse.runtime.kept import CACHE_VARIABLE

_NO_COMPILERS = """
import sys


class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("cutlass", "numba", "cuda"):
            raise ImportError(f"{name} is not installed")


sys.meta_path.insert(0, Refuse())


import numpy as np

import cutecourse.kernels
from cutecourse.display import difference, launch_source, source
from cutecourse.kernels import TensorMapSpec
from cutecourse.kernels.files import kernel_module, kernel_names
from cutecourse.runtime import NoCompilerError, run
"""

_READS = """
from cutecourse.kernels import umma_gemm, umma_parts, umma_tma, umma_tma_broken
from cutecourse.kernels import umma_tma_multicast, umma_two_sm

launched, maps = 0, 0
for name in kernel_names():
    module = kernel_module(name)
    spec = module.LAUNCH
    launched += 1
    assert source(module).text.strip(), name
    assert "LAUNCH = " in launch_source(module).text, name
    specs = [spec, *(module.broken(name) for name in getattr(module, "FAULTS", {}))]
    for one in specs:
        for param in one.params:
            if isinstance(param, TensorMapSpec):
                param.encoding.check()
                maps += 1
        if one.language != "ptx":
            assert f"def {one.kernel.__name__}(" in source(one.kernel).text, one.name
assert launched >= 40 and maps > 40, (launched, maps)

assert umma_two_sm.TILE == (256, 256, 64)
assert umma_two_sm.host is not None and "@cute.jit" in source(umma_two_sm.host).text
assert difference(umma_tma, umma_tma_multicast, of="kernel").added
assert umma_tma_broken.small("parity_flipped").text != source(umma_tma_multicast).text
assert umma_gemm.gemm_spec((256, 512, 64), cluster=(2, 2)).grid == (2, 2, 1)
assert umma_parts.parts_spec(lambda: None, umma_parts.epilogue).name == "umma_parts"
present = [name for name in sys.modules if name.partition(".")[0] in ("cutlass", "numba", "cuda")]
assert not present and not any(name.endswith(".source") for name in sys.modules)
"""

_TWINS = """
from cutecourse.dtypes import encode
from cutecourse.kernels import stamp_layout, twin, umma_broken, umma_tma_broken
from cutecourse.kernels.twinning import twins
from cutecourse.runtime import NoCompilerError, compile

MISSING = {"cutedsl": "the CuTe DSL", "numba": "numba-cuda"}
random = np.random.default_rng(3)
checked = 0
for name in twins():
    spec = kernel_module(name).LAUNCH
    if any(None in tensor.extents for tensor in spec.tensors):
        continue
    arrays = {
        argument: encode(random.integers(-8, 9, param.extents).astype(np.float32), param.dtype)
        for argument, param in spec.arguments.items()
    }
    ran = run(spec, device="emulator", **arrays)
    because = f"PTX written by hand, because {MISSING[spec.language]} is not installed"
    assert ran.record.rows()[0] == ("kernel", f"{spec.name} ({because})"), ran.record
    assert ran.record.line().endswith(f": {because}"), ran.record.line()
    assert (ran.record.language, ran.record.missing) == ("ptx", MISSING[spec.language])
    assert ran.ptx == twin(spec).ptx
    assert any(not np.array_equal(ran[argument], given) for argument, given in arrays.items()), name
    out = "d" if "d" in arrays else "c"
    if name.startswith(("umma", "micro_gemm")) and {*arrays} == {"a", "b", out}:
        product = ran["a"].astype(np.float32) @ ran["b"].astype(np.float32).T
        assert np.array_equal(ran[out], encode(product, spec.arguments[out].dtype)), name
        checked += 1
assert checked > 10

# Open extents: the twin is for the arrays that are passed.
out, shape, stride = np.full(32, -1, np.int32), np.array([4, 8], np.int32), np.array([8, 1], np.int32)
stamped = run(stamp_layout, device="emulator", out=out, shape=shape, stride=stride)
assert stamped["out"].tolist() == np.arange(32).reshape(8, 4).T.ravel().tolist()
assert stamped.record.missing == "numba-cuda"
assert run(stamp_layout, device="emulator", out=out, shape=out[:1] + 33, stride=stride[1:])["out"][31] == 31

faulty = umma_tma_broken.small("parity_flipped"), umma_broken.broken("never_cleared")
for spec in faulty:
    assert compile(spec).ptx == twin(spec).ptx
    try:
        compile(spec, by_hand=False)
    except NoCompilerError as error:
        assert error.compiler == "the CuTe DSL", error.compiler
    else:
        raise AssertionError("the twin took the compiler's place")
    assert compile(spec, target="sm_103a").ptx == twin(spec).ptx.replace("sm_100a", "sm_103a")
"""

_RUNS = """
from cutecourse.dtypes import encode
from cutecourse.kernels import gemm_ldmatrix, stamp_layout, umma_parts, umma_tile


def zeros(kernel):
    arguments = kernel.LAUNCH.arguments.items()
    return {name: encode(np.zeros(param.extents, np.float32), param.dtype) for name, param in arguments}


one = np.zeros(4, np.int32)
c = np.zeros((128, 128), np.float32)
a = np.zeros((128, 256), np.float16)
changed = str(source(umma_tile)).replace("[None, None, k_block]", "[None, None, 0]")
changed = umma_tile.LAUNCH.with_text(changed)
stamp = stamp_layout.LAUNCH.with_text(str(source(stamp_layout)).replace("cuda.grid(1)", "cuda.grid(1) + 1"))
parts = umma_parts.parts_spec(lambda: None, umma_parts.epilogue)
no_dsl = "the CuTe DSL cannot be imported (cutlass is not installed)"
for spec, arrays, says in (
    (stamp, dict(out=one, shape=one, stride=one), ["numba-cuda cannot be imported"]),
    (changed, dict(a=a, b=a, c=c), [no_dsl, "umma_tile has a twin in PTX", "this change is not known"]),
    (parts, dict(a=a, b=a, c=c), [no_dsl, "its twin is for the file's own parts only"]),
    (gemm_ldmatrix, zeros(gemm_ldmatrix), [no_dsl, "gemm_ldmatrix has no twin in PTX"]),
):
    try:
        run(spec, device="emulator", **arrays)
    except NoCompilerError as error:
        assert all(part in str(error) for part in says), error
    else:
        raise AssertionError("it was compiled")
"""


@pytest.mark.parametrize(
    "then", [_READS, _TWINS, _RUNS], ids=["reads", "runs-its-twin", "says-which-compiler-is-missing"]
)
def test_without_compilers__a_kernel(then: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _NO_COMPILERS + then],
        env={**os.environ, CACHE_VARIABLE: "off"},  # what was compiled before would run
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_kernel_file__gives_what_an_import_gives() -> None:
    imported = umma_two_sm.FILE.load()
    for name in ("MMA", "TILE", "CLUSTER", "TMEM_COLUMNS", "THREADS"):
        assert getattr(umma_two_sm, name) == getattr(imported, name)
    assert umma_two_sm.host.resolve() is imported.host
    assert umma_parts.multiply.resolve() is umma_parts.FILE.load().multiply


def test_kernel_file__reads_constants_that_follow_from_others() -> None:
    text = "A = 2\nB = (A, *(A + 1, 4))\nC = B[0] * B[-1]\nD = len(B)\nE = D\n\n\ndef f():\n    return A\n"
    file = KernelFile("small", text)
    assert (file.constant("A"), file.constant("B"), file.attribute("C")) == (2, (2, 3, 4), 8)
    assert file.attribute("f") == KernelFunction(file, "f")
    assert file.function("f")() == 2
    for name in ("D", "E", "f"):  # what calls something is not read, nor what follows from it
        with pytest.raises(AttributeError, match=f"small has no constant '{name}'"):
            file.constant(name)
    with pytest.raises(AttributeError, match="neither a constant nor a function 'D'"):
        file.attribute("D")
    with pytest.raises(AttributeError, match="no function 'A'"):
        file.function("A")


def test_kernel_file__refuses_a_text_that_is_not_python() -> None:
    with pytest.raises(SpecError, match=r"small: the kernel's text is not Python: .* in its line 2"):
        KernelFile("small", "A = 1\nB = (\n")


def test_kernel_function__is_another_one_in_another_text() -> None:
    one, two = (KernelFile("small", f"def f(x):\n    return x + {number}\n") for number in (1, 2))
    assert (one.function("f")(1), one.function("f").of(two)(1)) == (2, 3)
    assert one.function("f").given(5).resolve() == 6
    assert one.function("f").given(5).of(two).resolve() == 7
    with pytest.raises(AttributeError, match="no function 'f'"):
        one.function("f").of(KernelFile("empty", ""))


def test_kernel_functions_text__has_its_decorators() -> None:
    assert kernel_file("stamp_layout").text_of("stamp_layout").startswith("@cuda.jit\ndef stamp_layout(out,")


def test_kernel_files__are_all_that_decide_what_a_kernel_does() -> None:
    def names(kernel: str) -> list[str]:
        return ["/".join(path.parts[-2:]) for path in kernel_files(kernel)]

    own = ["__init__.py", "faults.py", "hopper_broken.py", "source.py", "twin.ptx"]
    assert names("hopper_broken") == names("hopper_clusters")
    assert names("hopper_clusters") == [
        *(f"hopper_clusters/{name}" for name in own),
        "kernels/hopper_ladder.py",
    ]
    assert {"umma_tile/source.py", "umma_tile/twin.ptx", "umma_parts/source.py"} < set(names("umma_parts"))
    assert not any(name.startswith("umma_parts") for name in names("umma_tile"))
    with pytest.raises(SpecError, match="there is no kernel 'umma_ten'"):
        kernel_files("umma_ten")
