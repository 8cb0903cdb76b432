#!/usr/bin/env bash
# Fuzzes the readers of model files under AddressSanitizer and UndefinedBehaviorSanitizer: a million cases by default.
#   tests/fuzz/run.sh [CASES] [SEED]     KVC_TORCH names LibTorch, as for ./kvc; KVC_FUZZ_BUILD the build folder
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
cases=${1:-1000000}
seed=${2:-1}
build=${KVC_FUZZ_BUILD:-$root/build-fuzz}
log=$build/fuzz.log
mkdir -p "$build"
cmake -S "$root" -B "$build" -G Ninja -DKVC_TORCH="${KVC_TORCH:-$root/build/venv}" -DKVC_SANITIZE=address,undefined \
  -DKVC_CUDA=OFF >"$log" 2>&1 || { cat "$log" >&2; exit 3; }
ninja -C "$build" fuzz_files >>"$log" 2>&1 || { tail -n 40 "$log" >&2; exit 3; }

# An allocation of more than 1 GiB, or 4 GiB in all, is a failure like any other.
export ASAN_OPTIONS=abort_on_error=1:handle_abort=0:detect_leaks=1:max_allocation_size_mb=1024:hard_rss_limit_mb=4096
export UBSAN_OPTIONS=abort_on_error=1:print_stacktrace=1
status=0
for share in header:20 index:10 tokenizer:10 special:5 merges:5 pieces:5 config:10 generation:5 gguf:25 gguf_tokenizer:5; do
  "$build/bin/fuzz_files" --target "${share%:*}" --cases $((cases * ${share#*:} / 100)) --seed "$seed" || status=1
done
exit $status
