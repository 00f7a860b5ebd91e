"""`prove` against a search through all states, on protocols of the kinds that people write and on mutants."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from benchmarks.signal_protocols import RIGHT, WRONG
from benchmarks.signals import mutants, wrongs
from cutecourse.emulator import EmulatorError, launch, prove


@pytest.mark.parametrize("protocol", RIGHT, ids=lambda one: one.name)
def test_a_right_protocol__is_proved(protocol):
    assert not wrongs(protocol)
    proof = prove(**protocol.launch)
    assert proof.proved, str(proof)
    for seed in range(2):
        assert not launch(**protocol.launch, seed=seed).notes


@pytest.mark.parametrize("protocol", WRONG, ids=lambda one: one.name)
def test_a_wrong_protocol__has_a_counterexample(protocol):
    assert wrongs(protocol)
    proof = prove(**protocol.launch)
    assert proof.verdict == "counterexample", str(proof)
    assert isinstance(proof.error, EmulatorError)


@pytest.mark.parametrize("lanes", [2, 3])
def test_lanes_of_one_warp__get_the_verdicts_of_the_search(lanes):
    """Lanes that run apart are threads like warps: what nothing orders between two of them is not proved."""
    verdicts = Counter()
    changed = (one for protocol in RIGHT for one in mutants(protocol))
    for protocol in (*RIGHT, *WRONG, *islice(changed, 0, None, 60)):
        in_lanes = protocol.in_lanes(lanes)
        if in_lanes is None:
            continue
        wrong, proof = wrongs(protocol), prove(**in_lanes.launch)
        assert proof.verdict != ("proved" if wrong else "counterexample"), (in_lanes.name, wrong, str(proof))
        assert proof.proved or wrong or protocol not in RIGHT, (in_lanes.name, str(proof))
        verdicts[proof.verdict] += 1
    assert verdicts["proved"] > 40
    assert verdicts["counterexample"] > 20


@pytest.mark.parametrize("change", ["0/2/4 ('read', 0)", "0/2/6 ('wait', 0, 0, 'test')"])
def test_lane_that_reads_behind_its_arrival__is_not_proved(change):
    """The copy that its issuer starts then may land before another lane of the issuer's warp has read."""
    right = next(one for one in RIGHT if one.name == "ring of 1, 3 tiles, 1 to 2, bulk, test")
    wrong = next(one for one in mutants(right) if one.name == f"{right.name}; {change} one later").in_lanes(3)
    assert wrongs(wrong) == {"race"}
    assert not prove(**wrong.launch).proved


def test_mutants__get_the_verdicts_of_the_search():
    """One mutant in 20; all of them take some minutes."""
    verdicts = Counter()
    every = (one for protocol in RIGHT for one in mutants(protocol))
    for protocol in islice(every, 0, None, 20):
        wrong, proof = wrongs(protocol), prove(**protocol.launch)
        assert proof.verdict != ("proved" if wrong else "counterexample"), (protocol.name, wrong, str(proof))
        verdicts[proof.verdict] += 1
    assert verdicts["proved"] > 20
    assert verdicts["counterexample"] > 60
    assert verdicts["incomplete"] <= 1
