#!/usr/bin/env bash
# Fuzzes the readers of strangers' files under AddressSanitizer and UndefinedBehaviorSanitizer: a million cases by default.
#   tests/fuzz/run.sh [CASES] [SEED]     KVC_TORCH names LibTorch, as for ./kvc; KVC_FUZZ_BUILD the build folder
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
build=${KVC_FUZZ_BUILD:-$root/build-fuzz}
log=$build/fuzz.log
mkdir -p "$build"
cmake -S "$root" -B "$build" -G Ninja -DKVC_TORCH="${KVC_TORCH:-$root/build/venv}" -DKVC_SANITIZE=address,undefined \
  -DKVC_CUDA=OFF >"$log" 2>&1 || { cat "$log" >&2; exit 3; }
ninja -C "$build" fuzz_files >>"$log" 2>&1 || { tail -n 40 "$log" >&2; exit 3; }

export OMP_NUM_THREADS=1  # a case is too short for threads that spin
# An allocation of more than 1 GiB, or 4 GiB in all, is a failure like any other.
export ASAN_OPTIONS=abort_on_error=1:handle_abort=0:detect_leaks=1:max_allocation_size_mb=1024:hard_rss_limit_mb=4096:quarantine_size_mb=32:malloc_context_size=8
export UBSAN_OPTIONS=abort_on_error=1:print_stacktrace=1
exec "$build/bin/fuzz_files" --target all --cases "${1:-1000000}" --seed "${2:-1}"
