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
