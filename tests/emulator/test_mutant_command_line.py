"""The mutation suite's rules at sites of one's own: what is listed, run and refused."""

import re
import shlex

import pytest

from benchmarks import mutants

TEXT = """.version 8.0
.target sm_80
.address_size 64
.visible .entry reverse(.param .u64 out)
{
    .shared .b32 words[64];
    .reg .b32 %me, %at, %x;
    .reg .b64 %out;
    ld.param.u64 %out, [out];
    mov.u32 %me, %tid.x;
    shl.b32 %at, %me, 2;
    mov.u32 %x, words;
    add.u32 %at, %at, %x;
    st.shared.b32 [%at], %me;
    bar.sync 0;
    ld.shared.b32 %x, [words+4];
    mad.wide.u32 %out, %me, 4, %out;
    st.global.b32 [%out], %x;
    ret;
}
"""
BARRIER = 15
DROPPED = "barrier of data dropped"


@pytest.fixture
def ask(tmp_path, capsys):
    """The exit status and what was said, for options."""
    path = tmp_path / "reverse.ptx"
    path.write_text(TEXT)

    def given(*options):
        status = mutants.main(["--ptx", str(path), "--block", "64", "--arg", "zeros:u32:64", *options])
        said = capsys.readouterr()
        return status, said.out, said.err

    return given


def test_list__has_the_sites_with_what_would_stand_there(ask):
    assert TEXT.split("\n")[BARRIER - 1].strip() == "bar.sync 0;"
    status, out, _ = ask("--list", "--rule", DROPPED)
    (line,) = out.splitlines()
    assert status == 0
    assert line.endswith(f"reverse.ptx:{BARRIER}: {DROPPED}: bar.sync 0; -> ")
    assert f"{BARRIER:5}     bar.sync 0;" in ask("--list", "--text")[1].splitlines()


def test_run__says_what_a_mutant_is_reported_as(ask):
    status, out, _ = ask("--rule", DROPPED, "--line", str(BARRIER))
    assert status == 0
    assert out.splitlines()[1].startswith("  right: ")


@pytest.mark.parametrize(
    ("expect", "status", "outcome"),
    [
        (DROPPED, 0, "right"),
        ("SharedMemoryRace, UninitializedRead", 0, "right"),
        ("race, never written", 0, "right"),
        ("deadlock", 1, "other"),
    ],
)
def test_replace__is_held_to_the_reports_that_one_names(ask, expect, status, outcome):
    found, out, _ = ask("--line", str(BARRIER), "--replace", "", "--expect", expect)
    assert out.splitlines()[1].startswith(f"  {outcome}: ")
    assert found == status


@pytest.mark.compilers
def test_documents__name_sites_that_there_are(repository, capsys):
    text = (repository / "CONTRIBUTING.md").read_text() + (mutants.__doc__ or "")
    examples = re.findall(r"benchmarks\.mutants (--family [^#\n]*--line[^#\n]*)", text)
    assert len(examples) > 2
    for example in examples:
        options = shlex.split(example)
        rule = options[options.index("--rule" if "--rule" in options else "--expect") + 1]
        line = options[options.index("--line") + 1]
        assert mutants.main(["--list", "--family", "umma_tma", "--rule", rule, "--line", line]) == 0
        assert f"umma_tma:{line}: {rule}: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--rule", "barrier dropt"], "there is no rule 'barrier dropt'"),
        (["--rule", DROPPED, "--line", "3"], "there is no such site"),
        (["--line", "3", "--replace", ""], "--replace needs --expect"),
        (["--replace", "", "--expect", "race"], "--replace needs --line, from 1 to 21"),
        (["--line", "3", "--replace", "", "--expect", "races"], "--expect races: neither a rule"),
        (["--kernel", "umma_tma"], "give one of --family, --kernel and --ptx"),
    ],
)
def test_options__that_do_not_go_together_are_refused(ask, options, said):
    status, _, err = ask(*options)
    assert status == 2
    assert said in err


@pytest.mark.parametrize("grid", ["1,2,3,4", "x", ""])
def test_options__a_grid_that_is_none_is_refused(ask, grid, capsys):
    with pytest.raises(SystemExit) as ended:
        ask("--grid", grid)
    assert ended.value.code == 2
    assert "is not one to three integers" in capsys.readouterr().err
