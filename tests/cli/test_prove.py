"""`cutecourse prove`, and `emulate --order` for what it has written."""

from __future__ import annotations

import json

import pytest

from cutecourse.cli import main
from cutecourse.protocols import Protocol
from support.protocols import SLOW_READER

BRANCHING = """
.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 counter)
.reqntid 32
{
    .reg .b64 %counter;
    .reg .b32 %number;
    .reg .pred %first;
    ld.param.u64 %counter, [counter];
    atom.global.add.u32 %number, [%counter], 1;
    setp.eq.u32 %first, %number, 0;
    @%first bra END;
    mov.u32 %number, 0;
END:
    ret;
}
"""


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow.ptx").write_text(SLOW_READER.ptx)
    (tmp_path / "right.ptx").write_text(Protocol(SLOW_READER.counts, SLOW_READER.threads[:2]).ptx)
    (tmp_path / "branching.ptx").write_text(BRANCHING)


def run(capsys, *arguments):
    status = main(list(arguments))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_prove__says_that_every_order_goes_well(capsys):
    status, out, err = run(capsys, "prove", "right.ptx", "--block", "64")
    assert (status, err) == (0, "")
    assert out.startswith("proved: every legal order gives each barrier the same phases")


def test_prove__keeps_an_order_that_emulate_runs_again(capsys):
    status, out, _ = run(capsys, "prove", "slow.ptx", "--block", "96", "--save", "order.json")
    assert status == 1
    assert out.startswith("counterexample")
    assert "cutecourse emulate --order order.json" in out
    assert run(capsys, "emulate", "slow.ptx", "--block", "96")[0] == 0
    status, _, err = run(capsys, "emulate", "slow.ptx", "--block", "96", "--order", "order.json")
    assert status == 1
    assert "no warp can go on" in err


def test_prove__says_why_it_cannot_tell(capsys):
    status, out, _ = run(capsys, "prove", "branching.ptx", "--arg", "zeros:u32:1")
    assert status == 3
    assert "atom.global.add.u32 (line 12), whose value depends on the order of threads" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seconds", "0"], "--seconds 0.0: give a number greater than 0"),
        (["--save", "missing/order.json"], "missing/order.json"),
        (["--grid", "3", "--cluster", "2"], "not a multiple"),
    ],
)
def test_prove__refuses_what_cannot_be(capsys, arguments, said):
    status, _, err = run(capsys, "prove", "right.ptx", "--block", "64", *arguments)
    assert status == 2
    assert said in err


def test_emulate__refuses_an_order_that_prove_has_not_written(capsys, tmp_path):
    (tmp_path / "order.json").write_text(json.dumps({"delays": []}))
    status, _, err = run(capsys, "emulate", "right.ptx", "--block", "64", "--order", "order.json")
    assert status == 2
    assert "no order that prove has written" in err
