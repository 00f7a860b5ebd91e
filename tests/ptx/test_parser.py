"""The parser: what is read, and how what cannot be read is refused."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutecourse.errors import CourseError
from cutecourse.ptx import PtxError, PtxLimitError, PtxNameError, PtxSyntaxError, check, parse
from cutecourse.ptx.scopes import LabelSymbol, Register, flatten
from cutecourse.ptx.syntax import (
    Address,
    Block,
    BranchTargets,
    FloatLiteral,
    IntLiteral,
    Name,
    Negated,
    Pair,
    Sequence,
    Sink,
    SymbolOffset,
    Vector,
)

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
MODULES = Path(__file__).resolve().parent.parent / "emulator" / "modules"


def kernel(body, parameters="", outside=""):
    return f"{HEAD}{outside}\n.visible .entry k({parameters})\n{{\n{body}\n}}\n"


def instructions(body, **more):
    module = parse(kernel(body, **more))
    return [s for s in module.entries["k"].body.statements if hasattr(s, "opcode")]


def test_parse__head_of_a_module():
    module = parse(".version 8.8\n.target sm_90a, debug\n.address_size 64\n// nothing else\n")
    assert (module.version, module.target, module.address_size) == ((8, 8), ("sm_90a", "debug"), 64)
    assert module.functions == ()


def test_parse__entry_with_parameters_and_directives():
    module = parse(
        HEAD + ".visible .entry k(.param .u64 .ptr .global .align 16 p, .param .align 8 .b8 s[24],"
        " .param .f32 x)\n"
        ".maxntid 128, 2, 1\n.minnctapersm 2\n.reqntid 64\n{ ret; }"
    )
    entry = module.entries["k"]
    assert entry.linkage == {"visible"}
    assert [(p.name, p.type, p.dims, p.alignment) for p in entry.params] == [
        ("p", "u64", (), None),
        ("s", "b8", (24,), 8),
        ("x", "f32", (), None),
    ]
    assert entry.params[0].attributes == ("ptr", "global")
    assert entry.directive("maxntid") == (128, 2, 1)
    assert entry.directive("minnctapersm") == (2,)
    assert entry.directive("maxnreg") is None


def test_parse__device_function_and_declaration():
    module = parse(
        HEAD + ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
        ".weak .func (.reg .f32 %out) f(.reg .f32 %in) { mov.f32 %out, %in; ret; }"
    )
    declared, defined = module.functions
    assert declared.body is None
    assert declared.linkage == {"extern"}
    assert [r.name for r in defined.returns] == ["%out"]
    assert list(module.defined) == ["f"]


def test_parse__module_variables_with_initializers():
    module = parse(
        HEAD + ".global .align 4 .b8 text[6] = {120, 32, 0x25, 100, 012};\n"
        ".const .f32 pi = 0f40490FDB, table[2][2] = {{1.0, -2.5}, {3e2, 4}};\n"
        ".global .u64 where[] = {text, generic(text)+2, text-1};\n"
        ".common .global .align 8 .u64 env;\n.extern .shared .align 1024 .b8 dynamic[];\n"
        ".visible .shared .align 16 .v4 .f32 tile[8];\n"
    )
    text, pi, table, where, env, dynamic, tile = module.variables
    assert [v.value for v in text.initializer] == [120, 32, 37, 100, 10]
    assert pi.initializer[0] == FloatLiteral(pi.initializer[0].line, pi.initializer[0].column, 0x40490FDB, 32)
    assert table.dims == (2, 2)
    assert len(table.initializer) == 4
    assert [(v.symbol, v.offset, v.generic) for v in where.initializer] == [
        ("text", 0, False),
        ("text", 2, True),
        ("text", -1, False),
    ]
    assert env.linkage == {"common"}
    assert (dynamic.dims, dynamic.linkage) == ((None,), {"extern"})
    assert (tile.vector, tile.alignment) == (4, 16)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("17", 17),
        ("0x1F", 31),
        ("0xFFFFFFFFFFFFFFFF", 2**64 - 1),
        ("017", 15),
        ("0b101", 5),
        ("42U", 42),
        ("-1", -1),
        ("~0", -1),
        ("!5", 0),
        ("(1 + 2) * 3", 9),
        ("1 << 4 | 3", 19),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("3 > 2 ? 10 : 20", 10),
        ("WARP_SZ", 32),
        ("(.s64) 5", 5),
        ("1 == 1 && 2 < 1", 0),
    ],
)
def test_parse__integer_constants_and_expressions(written, value):
    (found,) = instructions(f".reg .b64 %a; mov.u64 %a, {written};")
    assert isinstance(found.operands[1], IntLiteral)
    assert found.operands[1].value == value


@pytest.mark.parametrize(
    ("written", "bits", "pattern"),
    [
        ("0f3F800000", 32, 0x3F800000),
        ("0d3FF0000000000000", 64, 0x3FF0000000000000),
        ("-0f3F800000", 32, 0xBF800000),
        ("1.5", 64, 0x3FF8000000000000),
        ("-2.5e3", 64, 0xC0A3880000000000),
    ],
)
def test_parse__floating_constants(written, bits, pattern):
    (found,) = instructions(f".reg .f32 %a; mov.f32 %a, {written};")
    literal = found.operands[1]
    assert (literal.bits, literal.value) == (bits, pattern)


def test_parse__operands_of_every_shape():
    (found,) = instructions(
        ".reg .b32 %r<9>; .reg .b64 %rd<3>; .reg .pred %p<3>;"
        "@!%p0 thing.sync.x4.L2::128B.shared::cta {%r0, _}, %r1|%p1, !%p2, [%rd1+-8], [%rd2, {%r2, %r3}],"
        " (%r4), %tid.x;"
    )
    assert (found.opcode, found.modifiers) == ("thing", ("sync", "x4", "L2::128B", "shared::cta"))
    assert (found.guard.name, found.guard.negated) == ("%p0", True)
    vector, pair, negated, address, tensor, sequence, special = found.operands
    assert isinstance(vector, Vector)
    assert isinstance(vector.items[1], Sink)
    assert isinstance(pair, Pair)
    assert (str(pair.first), str(pair.second)) == ("%r1", "%p1")
    assert isinstance(negated, Negated)
    assert isinstance(address, Address)
    assert (address.base.text, address.offset) == ("%rd1", -8)
    assert len(tensor.coordinates[0].items) == 2
    assert isinstance(sequence, Sequence)
    assert special == Name(special.line, special.column, "%tid.x")


def test_parse__addresses():
    found = instructions(
        ".reg .b64 %a; ld.u32 %a, [sym]; ld.u32 %a, [sym+4]; ld.u32 %a, [16]; ld.u32 %a, [%a+(2*4)];"
        " mov.u64 %a, sym+8;"
    )
    shown = [
        (i.operands[1].base.text if i.operands[1].base else None, i.operands[1].offset) for i in found[:4]
    ]
    assert shown == [("sym", 0), ("sym", 4), (None, 16), ("%a", 8)]
    assert isinstance(found[4].operands[1], SymbolOffset)


def test_parse__call_operands():
    one, two, three = instructions(".reg .b32 %r; call.uni (out), f, (a, %r, 5); call f, (a); call f;")
    assert [type(o) for o in one.operands] == [Sequence, Name, Sequence]
    assert [type(o) for o in two.operands] == [Name, Sequence]
    assert [type(o) for o in three.operands] == [Name]


def test_parse__branch_targets_and_call_prototypes():
    module = parse(
        kernel(
            "a: b: ts: .branchtargets a, b;\nproto: .callprototype (.param .b32 _) _ (.param .b64 _);\nret;"
        )
    )
    statements = module.entries["k"].body.statements
    assert isinstance(statements[2], BranchTargets)
    assert statements[2].labels == ("a", "b")
    assert statements[3].returns[0].type == "b32"


def test_parse__line_information_reaches_the_instruction():
    first, second = instructions(
        ".loc 1 12 3\nret;\n.loc 2 440 9, function_name $L__info_string0, inlined_at 1 9 3\nret;"
    )
    assert (first.loc.file, first.loc.line, first.loc.column) == (1, 12, 3)
    assert (second.loc.file, second.loc.line) == (2, 440)


def test_parse__debug_sections_and_files_are_read_past():
    module = parse(HEAD + '.file 1 "kernel.py", 12, 34\n.section .debug_str { $s: .b8 1,2 .b64 $s { } }\n')
    assert (module.files[0].number, module.files[0].path) == (1, "kernel.py")


def test_parse__lines_and_columns_are_counted_from_one():
    module = parse(HEAD + "/* two\nlines */ .visible .entry k()\n{\n\tret;\n    @%p exit;\n}")
    ret, exit_ = (s for s in module.entries["k"].body.statements)
    assert (ret.line, ret.column) == (7, 2)
    assert (exit_.line, exit_.column) == (8, 5)


def test_parse__nested_blocks_with_their_own_names():
    module = parse(
        kernel("{ .reg .b32 %x; again: bra again; }\n{ .reg .b64 %x; again: mov.u64 %x, 1; bra again; }")
    )
    flat = flatten(module, module.entries["k"])
    assert all(isinstance(s, Block) for s in module.entries["k"].body.statements)
    first, second, third = flat.scopes
    assert first.lookup("%x").bits == 32
    assert second.lookup("%x").bits == 64
    assert first.lookup("again") == LabelSymbol("again", 0)
    assert third.lookup("again") == LabelSymbol("again", 1)


def test_scopes__register_ranges_cost_nothing_until_used():
    module = parse(kernel(".reg .b32 %r<1000000000>; mov.u32 %r999999999, %r1;"))
    flat = flatten(module, module.entries["k"])
    scope = flat.scopes[0]
    assert isinstance(scope.lookup("%r999999999"), Register)
    assert scope.lookup("%r1000000000") is None
    assert scope.lookup("%r01") is None
    assert len(flat.registers) == 1


def test_scopes__a_prefix_may_end_in_digits():
    module = parse(kernel(".reg .b32 %r<2>; .reg .b64 %r1_<5>; .reg .b16 %r1<30>; ret;"))
    scope = flatten(module, module.entries["k"]).scope
    assert scope.lookup("%r1_4").bits == 64
    assert scope.lookup("%r129").bits == 16
    assert scope.lookup("%r0").bits == 32


@pytest.mark.parametrize("name", ["scalar.ptx"])
def test_parse__whole_modules_of_compilers(name):
    module = parse((MODULES / name).read_text())
    check(module)
    assert {"reduce_sum", "matmul", "histogram"} <= set(module.entries)
    assert any(i.loc for f in module.functions if f.body for i in f.body.statements if hasattr(i, "loc"))


# --- refusals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "column", "expected"),
    [
        ("", 1, 1, "'.version' at the start of a PTX text"),
        ("hello", 1, 1, "'.version' at the start of a PTX text"),
        (".version 8", 1, 10, "a version such as 8.8"),
        (HEAD + "add.u32 %a, %b;", 4, 1, "a directive such as .entry, .func, .global or .target"),
        (kernel("add.u32 %a %b;"), 7, 12, "',' or ';'"),
        (kernel("add.u32 %a, ;"), 7, 13, "an operand: a register, a number, a vector or an address"),
        (kernel("ld.u32 %a, [%b;"), 7, 15, "']'"),
        (kernel("mov.u32 %a, 09;"), 7, 13, "an octal integer"),
        (kernel("mov.u32 %a, 0x1FFFFFFFFFFFFFFFF;"), 7, 13, "an integer of at most 64 bits"),
        (kernel("mov.u32 %a, 5 / 0;"), 7, 18, "a divisor other than zero"),
        (kernel(".reg .b33 %a;"), 7, 6, "a type such as .b32"),
        (kernel(".reg .b32 5;"), 7, 11, "the register's name"),
        (kernel("ret"), 8, 1, "';' after the instruction"),
        (HEAD + ".entry k() { ret;", 4, 18, "'}' that closes the block"),
        (HEAD + ".global .align 3 .b8 x[4];", 4, 16, "a power of two"),
        (kernel("mov.u32 %a, `;"), 7, 13, "an instruction, a directive or an operand"),
        (HEAD + "/* never closed", 4, 1, "*/"),
    ],
)
def test_parse__refusal_says_line_column_and_what_was_expected(text, line, column, expected):
    with pytest.raises(PtxSyntaxError) as caught:
        parse(text)
    error = caught.value
    assert (error.line, error.expected) == (line, expected)
    assert error.column == column
    assert f"line {line}" in str(error)
    if text:
        assert text.split("\n")[line - 1].strip() in str(error) or not text.split("\n")[line - 1].strip()


def test_parse__error_marks_the_column_under_the_text():
    with pytest.raises(PtxSyntaxError) as caught:
        parse(kernel("\tadd.u32 %a %b;"))
    shown, mark = str(caught.value).split("\n")[1:]
    assert shown[mark.index("^") :].startswith("%b")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("mov.u32 %r1, %r2;", "'%r1' is used but not declared"),
        (".reg .b32 %r<2>; mov.u32 %r1, %r2;", "'%r2' is used but not declared"),
        ("bra nowhere;", "'nowhere' is used but not declared"),
        (".reg .b32 %tid, %r; mov.u32 %r, %tid.x;", "'%tid.x' is a part of the register '%tid' here"),
        (".reg .b32 %r; @%r ret;", "%r guards an instruction but is not a predicate register"),
        ("@%p ret;", "'%p' is used but not declared"),
        (".reg .b32 %r; mov.u32 %r, %nothing.x;", "'%nothing.x' is used but not declared"),
        (".reg .b32 %r; bra %r;", "needs a label"),
    ],
)
def test_check__names_have_to_be_declared(body, message):
    with pytest.raises(PtxError, match="line 7") as caught:
        check(parse(kernel(body)))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "body", [".reg .b32 %a, %a;", "x: ret; x: ret;", ".reg .b32 %r<2>; .reg .b64 %r<2>;"]
)
def test_check__a_name_is_declared_once_in_a_scope(body):
    with pytest.raises(PtxNameError, match="declared twice"):
        check(parse(kernel(body)))


def test_parse__two_functions_of_one_name_are_refused():
    with pytest.raises(PtxError, match="defined twice"):
        parse(kernel("ret;") + kernel("ret;").removeprefix(HEAD))


@pytest.mark.parametrize(
    "text",
    [
        kernel("{" * 2000 + "}" * 2000),
        kernel("mov.u32 %a, " + "(" * 5000 + "1" + ")" * 5000 + ";"),
        kernel("mov.u32 %a, " + "-" * 5000 + "1;"),
        kernel("mov.b64 " + "{" * 500 + "%a" + "}" * 500 + ", %b;"),
        HEAD + ".global .u32 x = " + "{" * 3000 + "1" + "}" * 3000 + ";",
    ],
)
def test_parse__deep_nesting_is_refused_and_not_followed(text):
    with pytest.raises(PtxLimitError, match="nesting"):
        parse(text)


def test_parse__reads_up_to_a_nul():
    assert list(parse(kernel("ret;") + "\0garbage").entries) == ["k"]


SAMPLE = (MODULES / "scalar.ptx").read_text()[:9000]


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, len(SAMPLE) - 1),
    st.integers(0, 40),
    st.text(alphabet='{}[]()<>;:,.%@!|_-+0x9fUab \n\t"/*$', max_size=6),
)
def test_parse__damaged_text_ends_in_a_module_or_in_one_of_our_errors(where, cut, put):
    text = SAMPLE[:where] + put + SAMPLE[where + cut :]
    # Any other exception fails the test.
    with suppress(CourseError):
        check(parse(text))
