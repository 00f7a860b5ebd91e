"""Record chapters and exercise solutions: run their cells here, keep the outputs in the paired notebooks.

python -m tools.record                 every page and every exercise solution
python -m tools.record 01 02           those chapters (by number, slug or file) and their exercises
python -m tools.record --pages 02      the page alone
python -m tools.record --stale         those whose code or kernels have changed
python -m tools.record --text          nothing is run: carry changed words over to the recordings
python -m tools.record --check         nothing is run: do the recordings belong to what is in the tree?

On a machine without a GPU, a cell that ran on a GPU keeps its recording as long as its code, its kernels and
what it shows are the same. All other cells are recorded here, with their kernels on the emulator.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from cutecourse.errors import CourseError
from tools import exercises, facts, tidy
from tools.execute import Execution, execute
from tools.notebooks import carry_ids, code_cells
from tools.pages import check_pages, read_source
from tools.paths import (
    EXERCISE_SOURCES,
    RECORDED_ON,
    choose,
    exercise_sources,
    notebook_of,
    notebook_sources,
    relative,
)
from tools.recordings import (
    METADATA_KEY,
    RECORD_COMMAND,
    StaleRecording,
    check_recording,
    describe,
    differences,
    how_to_record,
    keep_runs_on_gpus,
    machines,
    not_on_hardware,
    outputs_differ,
    read_recording,
    read_stored,
    text_differences,
    with_text_of,
    write_recording,
)


def record(source: Path, say: Callable[[str], None] = print) -> Path:
    """Run the cells of one page or exercise source and write its notebook, outputs and facts included.

    `say` is told each cell that ran on a GPU earlier and is not kept, and why.
    Errors: CellFailed when a cell raises that is not tagged `raises-exception`, or writes to stderr;
            StaleRecording when a cell that only quotes the tree shows something else than a build puts in.
    """
    notebook = _read(source)
    earlier = read_recording(source) if notebook_of(source).exists() else None
    carry_ids(notebook, earlier)
    folder = notebook_of(source).parent
    folder.mkdir(parents=True, exist_ok=True)
    execution = execute(notebook, where=source, cwd=folder)
    tidy.tidy(notebook, name=source.stem)
    if wrong := outputs_differ(code_cells(notebook)):
        raise StaleRecording(
            f"{relative(source)}, code cell {wrong}: it quotes the tree, but shows something else"
        )
    known = _note_runs(notebook, execution)
    if earlier is not None:
        for sentence in keep_runs_on_gpus(notebook, earlier):
            say(f"  {sentence}")
        known = {**machines(earlier), **known}
    describe(notebook, source, known)
    target = write_recording(notebook, source)
    # The minutes that a page states follow from its outputs, which were not there when it was read.
    carry_text_over(source)
    return target


def _note_runs(notebook: NotebookNode, execution: Execution) -> Mapping[str, Mapping[str, Any]]:
    """Put into each cell's metadata where its kernels ran; returns the facts of this machine, by its key."""
    here = {**facts.of_this_machine(), **execution.environment}
    key = f"{here['date']} {here['commit']}"
    for cell, runs in zip(code_cells(notebook), execution.runs, strict=True):
        if runs:
            noted = [{**run, "machine": key} if run["where"] == "gpu" else run for run in runs]
            cell.metadata[METADATA_KEY] = nbformat.from_dict({"runs": noted})
    return {key: here}


def carry_text_over(source: Path) -> bool:
    """Give a recording the words and comments that its source has now; tells whether they had changed.

    Errors: StaleRecording when code or kernels differ as well: then it is to be recorded.
    """
    notebook, recording = _read(source), read_recording(source)
    stale = differences(source, recording, code_cells(notebook))
    if stale:
        raise StaleRecording(f"{stale[0]}\nmore than words has changed: {how_to_record(source)}")
    if not text_differences(source, recording, notebook):
        return False
    carry_ids(notebook, recording)
    write_recording(with_text_of(notebook, recording), source)
    return True


def _read(source: Path) -> NotebookNode:
    if source.parent == EXERCISE_SOURCES:
        return exercises.solution_notebook(source)
    return read_source(source)


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.record", description=__doc__.splitlines()[0])
    parser.add_argument("chapters", nargs="*", help="02, 02_hello_mma or a file; none means all")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--pages", action="store_true", help="record the pages alone")
    only.add_argument("--exercises", action="store_true", help="record the exercises' solutions alone")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--stale", action="store_true", help="record what no longer fits the tree")
    how.add_argument("--text", action="store_true", help="run nothing; carry changed words over")
    how.add_argument("--check", action="store_true", help="run nothing; say which recordings are stale")
    options = parser.parse_args(arguments)
    if options.check and (options.chapters or options.pages or options.exercises):
        parser.error("--check takes nothing else: it looks at every page and exercise")
    try:
        if options.check:
            return _check()
        exercises.generate_learners()
        chosen = _chosen(options)
        if options.text:
            changed = [source for source in chosen if carry_text_over(source)]
            print(
                "\n".join(f"wrote {relative(notebook_of(source))}" for source in changed)
                or "no words changed"
            )
            return 0
        if options.stale:
            chosen = [source for source in chosen if check_recording(source, _read(source))]
        for source in chosen:
            print(f"recording {relative(source)} ...", flush=True)
            print(f"  wrote {relative(record(source))}", flush=True)
        if options.stale and not chosen:
            print("every recording belongs to what is in the tree")
    except CourseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _chosen(options: argparse.Namespace) -> list[Path]:
    pages = [] if options.exercises else notebook_sources()
    solutions = [] if options.pages else exercise_sources()
    return choose([*pages, *solutions], options.chapters)


def _check() -> int:
    found = [*check_pages(), *exercises.check_solutions(), *exercises.stale_learners()]
    for difference in found:
        print(difference, file=sys.stderr)
    if found:
        print(f"{len(found)} differences; record anew with: python -m tools.record --stale", file=sys.stderr)
        return 1
    print("every recording belongs to what is in the tree")
    sources = [*notebook_sources(), *exercise_sources()]
    missing = {source: kernels for source in sources if (kernels := not_on_hardware(read_stored(source)))}
    if missing:
        print("not yet recorded on hardware, because no GPU was there:")
        for source, kernels in missing.items():
            print(f"    {relative(notebook_of(source))}: {', '.join(kernels)}")
        print(f"record them on a machine with a GPU of compute capability {'.'.join(map(str, RECORDED_ON))}:")
        print(f"    {RECORD_COMMAND} {' '.join(dict.fromkeys(source.stem for source in missing))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
