"""What the CuTe DSL lacks, against values that CUTLASS's C++ headers printed (`cpp/probe.txt`).

`python tests/layout/cpp_data.py` records them again.
"""

import re

import pytest

from cutecourse.layout import Layout

from . import cpp_data
from .evaluate import evaluate, value

RECORDED = [tuple(line.split(" -> ")) for line in cpp_data.RECORD.read_text().splitlines()]


@pytest.mark.parametrize(("expression", "printed"), RECORDED)
def test_expression__is_what_cute_cpp_prints(expression: str, printed: str) -> None:
    # C++ marks what is known when compiling with `_`, and abbreviates Swizzle to Sw.
    assert evaluate(expression) == ("ok", printed.replace("_", "").replace("Sw<", "S<"))


@pytest.mark.parametrize("printed", sorted({p for _, p in RECORDED if ":" in p and not p.endswith(">")}))
def test_parse__reads_what_cute_cpp_prints(printed: str) -> None:
    assert str(Layout.parse(printed)) == printed.replace("_", "").replace("Sw<", "S<")


def test_record__holds_every_case_of_the_program() -> None:
    cases = re.findall(r'SHOW\("([^"]+)"', cpp_data.SOURCE.read_text())
    assert [expression for expression, _ in RECORDED] == cases
    assert len(cases) >= 80


@pytest.mark.inputs("tests/layout/cpp", "tests/layout/cpp_data.py")
def test_record__is_what_the_program_prints_now() -> None:
    nvcc, headers = cpp_data.find_nvcc(), cpp_data.find_headers()
    if nvcc is None or headers is None:
        pytest.skip("needs nvcc and the headers of nvidia-cutlass")
    assert cpp_data.compile_and_run(nvcc, headers) == cpp_data.RECORD.read_text()


# What C++ refuses with a static assertion cannot be printed: these cite the assertion's condition.
@pytest.mark.parametrize(
    ("expression", "rule"),
    [
        ("upcast(L((8,64),(3,16)),2)", "divides the other"),
        ("downcast(L((8,64),(2,16)),2)", "stride 1"),
        ("upcast(S(3,4,3),3)", "power of two"),
        ("downcast(S(3,4,3),6)", "power of two"),
        ("upcast(identity((4,8)),2)", "coordinates"),
        ("composition(L((8,8),(1,8)),L((2,2),(E(0),1)))", "integers, or basis elements and zeros"),
        ("composition(L(64),C(S(2,0,2),4,L(8)))", "without offset"),
        ("S(3,4,2)", "abs(num_shift) >= num_bits"),
    ],
)
def test_expression__is_refused_as_by_cute_cpp(expression: str, rule: str) -> None:
    status, message = evaluate(expression)
    assert status == "refused"
    assert rule in message


def test_swizzle__applies_bit_by_bit() -> None:
    swizzle = value("S(2,1,4)")
    for offset in range(1 << 9):
        bits = [offset >> i & 1 for i in range(9)]
        bits[1] ^= bits[5]
        bits[2] ^= bits[6]
        assert swizzle(offset) == sum(bit << i for i, bit in enumerate(bits))
        assert swizzle(swizzle(offset)) == offset
