"""`cutecourse emulate --json`, `--junit` and `--sarif`: each is valid, and says what the text report says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import numpy as np
import pytest

from cutecourse.cli import main
from cutecourse.emulator import HAZARDS, launch
from cutecourse.emulator.errors import SharedMemoryRace

HEAD = """.version 8.6
.target sm_90
.address_size 64
"""
BODY = """
{
    .shared .align 4 .b8 box[4];
    .reg .b32 %i, %v;
    .reg .b64 %y;
    .reg .pred %rest;
    ld.param.u64 %y, [y];
    mov.u32 %i, %tid.x;
    .loc 1 42 5
    WRITE
    bar.sync 0;
    setp.ne.u32 %rest, %i, 0;
    @%rest ret;
    ld.shared.b32 %v, [box];
    st.global.b32 [%y], %v;
    ret;
}
"""
ENTRY = '.file 1 "/src/race kernel.cu"\n.visible .entry race(.param .u64 y)\n.reqntid 64, 1, 1'
RACE = HEAD + ENTRY + BODY.replace("WRITE", "st.shared.b32 [box], %i;")
RIGHT = RACE.replace("st.shared.b32 [box], %i;", "st.shared.b32 [box], 7;")
SCHEMA = json.loads(
    (Path(__file__).parents[2] / "lib/cutecourse/cli/emulate.schema.json").read_text(encoding="utf-8")
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run the command on a text; return its exit status, the JSON, the JUnit XML and the SARIF."""
    monkeypatch.chdir(tmp_path)

    def ran(text: str, *options: str) -> tuple[int, Any, Any, Any]:
        Path("race.ptx").write_text(text)
        files = ["--json", "--junit", "j.xml", "--sarif", "s.sarif"]
        status = main(["emulate", "race.ptx", "--arg", "out:y.npy:u32:1", *files, *options])
        found = json.loads(capsys.readouterr().out)
        jsonschema.validate(found, SCHEMA)
        assert found["exit_status"] == status
        sarif = json.loads(Path("s.sarif").read_text())
        check_sarif(sarif)
        return status, found, ET.parse("j.xml").getroot(), sarif["runs"][0]

    return ran


@pytest.mark.parametrize("here", [False, True])
def test_formats__show_the_projects_line_of_an_inlined_function(run, tmp_path: Path, here: bool) -> None:
    helper = f"{tmp_path}/helper.cuh" if here else "/usr/include/cuda/helper.cuh"
    files = f'.file 1 "{tmp_path}/k.cu"\n.file 2 "{helper}"\n'
    text = RACE.replace('.file 1 "/src/race kernel.cu"\n', files).replace(
        ".loc 1 42 5", ".loc 1 42 5\n.loc 2 7 1, function_name $a, inlined_at 1 42 5"
    )
    _, found, _, sarif = run(text)
    [report] = found["reports"]
    inner, outer = ({"file": helper, "line": 7}, {"file": f"{tmp_path}/k.cu", "line": 42})
    assert report["source"] == {**inner, "inlined_at": [outer]}
    [result] = sarif["results"]
    lines = [
        one["physicalLocation"]["region"]["startLine"]
        for one in (*result["locations"], *result["relatedLocations"][:1])
    ]
    assert lines == ([7, 42] if here else [42, 7])


def check_sarif(log: dict[str, Any]) -> None:
    """What SARIF 2.1.0 requires of the properties that are used here, by its sections."""
    assert log["version"] == "2.1.0"  # 3.13.2
    assert log["$schema"].endswith("sarif-schema-2.1.0.json")  # 3.13.3
    [run] = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"]  # 3.19.8
    assert len({rule["id"] for rule in driver["rules"]}) == len(driver["rules"])  # 3.49.3
    for rule in driver["rules"]:
        assert rule["shortDescription"]["text"]
        assert rule.get("defaultConfiguration", {}).get("level", "error") in {
            "none",
            "note",
            "warning",
            "error",
        }
    for invocation in run["invocations"]:
        assert isinstance(invocation["executionSuccessful"], bool)  # 3.20.14
    for result in run["results"]:
        assert result["message"]["text"]  # 3.27.11
        assert result["level"] in {"none", "note", "warning", "error"}  # 3.27.10
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]  # 3.27.6
        for place in [*result["locations"], *result.get("relatedLocations", [])]:
            uri = place["physicalLocation"]["artifactLocation"]["uri"]
            assert " " not in uri  # a valid URI, 3.10.1
            assert place["physicalLocation"].get("region", {"startLine": 1})["startLine"] >= 1  # 3.30.5


def the_error() -> SharedMemoryRace:
    with pytest.raises(SharedMemoryRace) as caught:
        launch(RACE, grid=1, block=64, args=[np.zeros(1, np.uint32)])
    return caught.value


def test_formats__say_of_a_fault_what_the_error_says(run) -> None:
    status, found, junit, sarif = run(RACE)
    error = the_error()
    assert (status, found["end"], found["kernel"]) == (1, "wrong", "race")
    assert found["launch"] == {
        "grid": [1, 1, 1], "block": [64, 1, 1], "cluster": [1, 1, 1], "dynamic_smem": 0, "seed": 0
    }  # fmt: skip
    [report] = found["reports"]
    assert (report["hazard"], report["kind"], report["severity"]) == ("race", "SharedMemoryRace", "error")
    assert (report["message"], report["problem"]) == (str(error), error.problem)
    assert (report["line"], report["block"], report["warp"]) == (error.line, list(error.block), error.warp)
    assert report["source"] == {"file": "/src/race kernel.cu", "line": 42}
    [case] = junit.iter("testcase")
    assert case.get("name") == "race, seed 0"
    assert case.find("failure").get("type") == "race"
    assert case.find("failure").text == str(error)
    [result] = sarif["results"]
    assert (result["ruleId"], result["level"], result["message"]["text"]) == ("race", "error", str(error))
    [place] = result["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "file:///src/race%20kernel.cu"
    assert place["physicalLocation"]["region"]["startLine"] == 42
    ptx = result["relatedLocations"][0]["physicalLocation"]
    assert (ptx["artifactLocation"]["uri"], ptx["region"]["startLine"]) == ("race.ptx", error.line)
    assert sarif["tool"]["driver"]["rules"][0]["shortDescription"]["text"] == HAZARDS["race"].what


def test_formats__say_what_a_kernel_did_that_ran(run) -> None:
    status, found, junit, sarif = run(RIGHT)
    assert (status, found["end"]) == (0, "ran")
    assert found["saved"] == [{"file": "y.npy", "dtype": "uint32", "shape": [1]}]
    assert found["counts"]["by_instruction"]["bar.sync"] == 2
    assert found["counts"]["warps"] == 2
    assert [one["severity"] for one in found["reports"]] == ["note"]  # 64 threads write the same value
    assert (junit[0].get("tests"), junit[0].get("failures"), junit[0].get("errors")) == ("1", "0", "0")
    assert [one["level"] for one in sarif["results"]] == ["note"]


def test_formats__a_warning_fails_the_test_case_only_if_the_command_is_strict(run) -> None:
    status, found, junit, _ = run(RACE, "--hazard", "race=warning")
    assert (status, found["reports"][0]["severity"]) == (0, "warning")
    assert junit[0].get("failures") == "0"
    assert "warning" in junit.find(".//system-out").text
    status, _, junit, _ = run(RACE, "--hazard", "race=warning", "--strict")
    assert (status, junit[0].get("failures")) == (1, "1")


def test_formats__a_text_that_is_refused_is_an_error_with_its_line(run) -> None:
    status, found, junit, sarif = run(RACE.replace("bar.sync 0;", "bar.sync 0"))
    assert (status, found["end"], found["kernel"]) == (2, "not run", None)
    [report] = found["reports"]
    assert report["hazard"] is None
    assert report["line"] > 10
    assert junit.find(".//error").get("type") == report["kind"] == sarif["results"][0]["ruleId"]
    assert not sarif["invocations"][0]["executionSuccessful"]


def test_formats__an_exploration_has_a_test_case_for_each_seed(run) -> None:
    status, found, junit, _ = run(RACE, "--explore", "3")
    assert status == 1
    assert found["seeds"]["agree"]
    assert [one["seed"] for one in found["seeds"]["outcomes"]] == [0, 1, 2]
    [report] = found["reports"]
    assert (report["hazard"], report["count"]) == ("race", 3)
    assert [case.get("name") for case in junit.iter("testcase")] == [
        f"race, seed {seed}" for seed in range(3)
    ]
    assert junit[0].get("failures") == "3"
    status, found, junit, _ = run(RACE, "--explore", "20", "--hazard", "race=off")
    assert not found["seeds"]["agree"]
    assert found["reports"][-1]["kind"] == "SeedDependence"
    assert junit[0].get("failures") == "1"


def test_formats__a_file_that_cannot_be_written_is_said_before_the_kernel_runs(tmp_path, capsys) -> None:
    text = tmp_path / "race.ptx"
    text.write_text(RIGHT)
    nowhere = tmp_path / "none" / "s.sarif"
    assert main(["emulate", str(text), "--arg", "zeros:u32:1", "--sarif", str(nowhere)]) == 2
    said = capsys.readouterr()
    assert "there is no such folder" in said.err
    assert "ran to its end" not in said.out


def test_junit__holds_no_character_that_xml_cannot(run) -> None:
    status, _, junit, _ = run(RACE.replace("bar.sync 0;", "bar.\x01sync 0;"))
    assert status == 2
    assert junit.find(".//error") is not None
