"""Record what this machine's GPU makes of every PTX case, for the CPU tests to compare the emulator with.

Beside it goes what the driver answers to tensor maps that break its rules.

python -m tools.record_cases                  every case
python -m tools.record_cases --family mma     the cases of these families, and no other file
python -m tools.record_cases --only mma/f16   run the cases whose names begin so, and write nothing
python -m tools.record_cases --forget         no GPU needed: remove recordings of cases that have changed

Recording needs NumPy, ml_dtypes and cuda-bindings, and the library installed or on PYTHONPATH. Where there
is no git, CUTECOURSE_COMMIT says which commit this is. A case that the GPU refuses is named at the end, and
the file is not written.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.cases import ptx_cases, ptx_gpu, ptx_recordings, tensor_map_rules


def main(arguments: list[str] | None = None) -> int:
    """Run every case and write the recording."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=ptx_cases.RECORDING)
    parser.add_argument("--only", nargs="+", default=None, help="cases to run, without writing a file")
    parser.add_argument("--family", nargs="+", default=None, help="families to record, and no other file")
    parser.add_argument(
        "--forget", action="store_true", help="remove the recordings of cases that have changed or are gone"
    )
    options = parser.parse_args(arguments)
    if options.forget:
        return _forget(options.output)

    cases = [c for c in ptx_cases.all_cases() if not c.specification_only]
    families = sorted({c.family for c in cases})
    for name in options.only or []:
        if not any(c.name.startswith(name) for c in cases):
            parser.error(f"no case begins with {name!r}; the families are {', '.join(families)}.")
    for family in options.family or []:
        if family not in families:
            parser.error(f"no family {family!r} has cases to record; there are {', '.join(families)}.")
    gpu = ptx_gpu.Gpu()
    if options.only is not None:
        cases = [c for c in cases if any(c.name.startswith(name) for name in options.only)]
    if options.family is not None:
        cases = [c for c in cases if c.family in options.family]
    found, refused = {}, {}
    for case in cases:
        try:
            found[case.name] = ptx_recordings.entry_of(case, gpu.run(case))
        except RuntimeError as error:
            refused[case.name] = str(error)
            if "ILLEGAL" in str(error) or "LAUNCH_FAILED" in str(error) or "MISALIGNED" in str(error):
                # The context is lost; every later case would be refused for this one's fault.
                break
    print(f"{len(found)} of {len(cases)} cases ran on {gpu.name}")
    for name, reason in refused.items():
        print(f"  {name}: {reason}")
    if refused:
        return 1
    if options.only is None:
        newest = f"{gpu.cuda_version // 1000}.{gpu.cuda_version % 1000 // 10}"
        header = ptx_recordings.head(gpu.name, gpu.compute_capability, newest)
        ptx_recordings.write_families(header, found, options.output, options.family)
        print(f"written: {options.output}")
        if options.family is None:
            rules = options.output.with_name(tensor_map_rules.RECORDING.name)
            tensor_map_rules.write(header, gpu.tensor_map_answers(), rules)
            print(f"written: {rules}")
    return 0


def _forget(folder: Path) -> int:
    """Remove stale recordings and say which."""
    cases = ptx_cases.all_cases()
    names = {case.name for case in cases}
    removed = ptx_recordings.forget(cases, folder)
    for name in removed:
        state = "which is now not yet recorded on hardware" if name in names else "whose case is gone"
        print(f"removed the recording of {name}, {state}")
    if not removed:
        print("every recording belongs to its case")
    return 0


if __name__ == "__main__":
    sys.exit(main())
