#!/usr/bin/env bash
# Tests, records and measures on a machine with an NVIDIA GPU; README.md beside this file says how.
set -uo pipefail
cd "$(dirname "$0")/../.."

OUT=${OUT:-build/gpu}
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
if [ -z "${PYTHON:-}" ]; then
  PYTHON=python3
  [ -x .venv/bin/python ] && PYTHON=.venv/bin/python
fi
STEP_LIMIT_S=${STEP_LIMIT_S:-900}
cores=$(nproc)
WORKERS=${WORKERS:-$((cores < 4 ? 1 : cores > 16 ? 8 : cores / 2))}
export PYTHONPATH=$PWD/lib:$PWD${PYTHONPATH:+:$PYTHONPATH}
export CUTECOURSE_REQUIRE_GPU=1
if [ -z "${CUTECOURSE_COMMIT:-}" ]; then
  CUTECOURSE_COMMIT=$(git rev-parse HEAD 2>/dev/null) || CUTECOURSE_COMMIT=unknown
fi
export CUTECOURSE_COMMIT

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
mkdir -p "$results/logs"
touch "$results/began"

step_doctor() {
  "$PYTHON" -m cutecourse.cli doctor && "$PYTHON" -m cutecourse.cli doctor --json >"$OUT/doctor.json"
}
step_tests() {
  # Only the files that have tests for a GPU, so that what the other tests import need not be there.
  local files=${TESTS:-$(grep -rlE --include='test_*.py' 'mark(s=pytest\.mark)?\.gpu' tests)}
  # shellcheck disable=SC2086 # one word a file is meant
  "$PYTHON" -m pytest -m gpu -n "$WORKERS" --dist loadfile --junitxml="$OUT/tests.xml" $files
}
step_emulator() {
  # shellcheck disable=SC2086 # one word a family is meant
  "$PYTHON" -m tools.record_cases ${FAMILIES:+--family $FAMILIES}
}
step_tma() {
  "$PYTHON" -m tools.record_tma
}
step_notebooks() {
  "$PYTHON" -m pytest --nbval -n "$WORKERS" --dist loadfile --junitxml="$OUT/notebooks.xml" notebooks exercises/solutions
}
step_record() {
  "$PYTHON" -m tools.record
}
step_benchmarks() {
  local status=0
  "$PYTHON" -m benchmarks.mma_latency || status=1
  "$PYTHON" -m benchmarks.tma_bandwidth || status=1
  "$PYTHON" -m benchmarks.copy_ladder || status=1
  "$PYTHON" -m benchmarks.transpose || status=1
  "$PYTHON" -m benchmarks.gemm_ladder || status=1
  "$PYTHON" -m benchmarks.kernel_faults || status=1
  "$PYTHON" -m benchmarks.kernel_faults --tma || status=1
  "$PYTHON" -m benchmarks.museum --gpu --delay || status=1
  if command -v ncu >/dev/null; then
    "$PYTHON" -m benchmarks.memory_counters || status=1
  else
    echo "memory_counters: left out, there is no ncu"
  fi
  if command -v compute-sanitizer >/dev/null; then
    "$PYTHON" -m benchmarks.sanitizer || status=1
  else
    echo "sanitizer: left out, there is no compute-sanitizer"
  fi
  return "$status"
}
step_blackwell() {
  # Exits with 77 and says why where there is no Blackwell GPU.
  "$PYTHON" -m benchmarks.umma_throughput
}

steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(doctor tests emulator tma notebooks benchmarks blackwell record)
for step in "${steps[@]}"; do
  if ! declare -F "step_$step" >/dev/null; then
    echo "run_all.sh: there is no step '$step'; the steps are doctor tests emulator tma notebooks benchmarks blackwell record" >&2
    exit 64
  fi
done

failed=0
rows=()
export -f "${steps[@]/#/step_}"
export OUT PYTHON WORKERS
for step in "${steps[@]}"; do
  echo "=== $step"
  began=$SECONDS
  log="$results/logs/$step.log"
  timeout "$STEP_LIMIT_S" bash -c "step_$step" >"$log" 2>&1
  status=$?
  tail -n 12 "$log"
  case $status in
    0) verdict=passed ;;
    77) verdict="left out" ;;
    124) verdict="stopped after $STEP_LIMIT_S s" ;;
    *) verdict="FAILED ($status)" ;;
  esac
  [ "$status" -eq 0 ] || [ "$status" -eq 77 ] || failed=$((failed + 1))
  rows+=("$(printf '%-12s %-24s %6s s   %s' "$step" "$verdict" "$((SECONDS - began))" "$(tail -n 1 "$log" | cut -c1-100)")")
done

# What was written since the start, laid out as in the repository.
find notebooks exercises/solutions tests/emulator/recordings tests/tma/recordings benchmarks/results -type f -newer "$results/began" \
  2>/dev/null | tar -czf "$OUT/recordings.tar.gz" --files-from=-
tar -czf "$OUT/logs.tar.gz" -C "$results" logs
{
  echo "commit $CUTECOURSE_COMMIT"
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || echo "no nvidia-smi"
  printf '%s\n' "${rows[@]}"
} | tee "$OUT/summary.txt"
exit "$failed"
