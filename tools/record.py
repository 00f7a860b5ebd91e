"""Record chapters and exercise solutions: run their cells here, keep the outputs in the paired notebooks.

python -m tools.record                 every page and every exercise solution
python -m tools.record 01 02           those chapters (by number, slug or file) and their exercises
python -m tools.record --pages 02      the page alone
python -m tools.record --text          nothing is run: carry changed words over to the recordings
python -m tools.record --check         nothing is run: do the recordings belong to what is in the tree?
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from cutecourse.errors import CourseError
from tools import exercises, facts, tidy
from tools.execute import Execution, execute
from tools.exercises import check_solutions
from tools.notebooks import (
    METADATA_KEY,
    RECORD_COMMAND,
    StaleRecording,
    code_cells,
    differences,
    how_to_record,
    kernel_hash,
    not_on_hardware,
    read_recording,
    text_differences,
    with_text_of,
    write_recording,
)
from tools.pages import check_pages, read_source
from tools.paths import (
    EXERCISE_SOURCES,
    choose,
    exercise_sources,
    notebook_of,
    notebook_sources,
    relative,
)


def record(source: Path) -> Path:
    """Run the cells of one page or exercise source and write its notebook, outputs and facts included.

    Errors: CellFailed when a cell raises that is not tagged `raises-exception`, or writes to stderr.
    """
    notebook = _read(source)
    folder = notebook_of(source).parent
    folder.mkdir(parents=True, exist_ok=True)
    execution = execute(notebook, where=source, cwd=folder)
    tidy.tidy(notebook, name=source.stem)
    notebook.metadata[METADATA_KEY] = nbformat.from_dict(_facts(source, execution))
    target = write_recording(notebook, source)
    # The minutes that a page states follow from its outputs, which were not there when it was read.
    carry_text_over(source)
    return target


def carry_text_over(source: Path) -> bool:
    """Give a recording the words that its source has now; tells whether they had changed.

    Errors: StaleRecording when code, library or kernels differ as well: then it is to be recorded.
    """
    notebook, recording = _read(source), read_recording(source)
    stale = differences(source, recording, code_cells(notebook))
    if stale:
        raise StaleRecording(f"{stale[0]}\nmore than words has changed: {how_to_record(source)}")
    if not text_differences(source, recording, notebook):
        return False
    write_recording(with_text_of(notebook, recording), source)
    return True


def _read(source: Path) -> NotebookNode:
    if source.parent == EXERCISE_SOURCES:
        return exercises.solution_notebook(source)
    return read_source(source)


def _facts(source: Path, execution: Execution) -> dict[str, object]:
    kernels = {module: kernel_hash(module) for module in execution.kernel_modules}
    return {
        "source": relative(source),
        **facts.of_this_machine(),
        **execution.environment,
        "kernels": kernels,
        "runs": execution.runs,
    }


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.record", description=__doc__.splitlines()[0])
    parser.add_argument("chapters", nargs="*", help="02, 02_hello_mma or a file; none means all")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--pages", action="store_true", help="record the pages alone")
    only.add_argument("--exercises", action="store_true", help="record the exercises' solutions alone")
    parser.add_argument("--text", action="store_true", help="run nothing; carry changed words over")
    parser.add_argument("--check", action="store_true", help="run nothing; say which recordings are stale")
    options = parser.parse_args(arguments)
    if options.check and (options.chapters or options.pages or options.exercises):
        parser.error("--check takes nothing else: it looks at every page and exercise")
    try:
        if options.check:
            return _check()
        exercises.generate_learners()
        if options.text:
            changed = [source for source in _chosen(options) if carry_text_over(source)]
            print(
                "\n".join(f"wrote {relative(notebook_of(source))}" for source in changed)
                or "no words changed"
            )
            return 0
        for source in _chosen(options):
            print(f"recording {relative(source)} ...", flush=True)
            print(f"  wrote {relative(record(source))}", flush=True)
    except CourseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _chosen(options: argparse.Namespace) -> list[Path]:
    pages = [] if options.exercises else notebook_sources()
    solutions = [] if options.pages else exercise_sources()
    return choose([*pages, *solutions], options.chapters)


def _check() -> int:
    found = [*check_pages(), *check_solutions(), *exercises.stale_learners()]
    for difference in found:
        print(difference, file=sys.stderr)
    if found:
        print(f"{len(found)} differences; record anew with: python -m tools.record", file=sys.stderr)
        return 1
    print("every recording belongs to what is in the tree")
    sources = [*notebook_sources(), *exercise_sources()]
    missing = {source: kernels for source in sources if (kernels := not_on_hardware(read_recording(source)))}
    if missing:
        print("not yet recorded on hardware, because no GPU was there:")
        for source, kernels in missing.items():
            print(f"    {relative(notebook_of(source))}: {', '.join(kernels)}")
        print("record them on a machine with an NVIDIA H200:")
        print(f"    {RECORD_COMMAND} {' '.join(dict.fromkeys(source.stem for source in missing))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
