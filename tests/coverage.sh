#!/usr/bin/env bash
# The share of branches that the tests take in some rooms; not those of exceptions on their way, which every call has.
#   tests/coverage.sh [CTEST ARGUMENTS]      KVC_TORCH names LibTorch, as for ./kvc; KVC_COVERAGE_BUILD the build folder,
#                                            KVC_COVERAGE_ROOMS the rooms
# What a process counted that was killed is lost.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
build=${KVC_COVERAGE_BUILD:-$root/build-coverage}
rooms=${KVC_COVERAGE_ROOMS:-store wire experiment conformance}
log=$build/coverage.log
mkdir -p "$build"
[ -e "$build/jieba" ] || ln -sfn "$root/build/jieba" "$build/jieba"
cmake -S "$root" -B "$build" -G Ninja -DKVC_TORCH="${KVC_TORCH:-$root/build/venv}" -DKVC_COVERAGE="${rooms// /;}" \
  -DKVC_TEST_PYTHON="$root/build/test-venv/bin/python" >"$log" 2>&1 || { cat "$log" >&2; exit 3; }
ninja -C "$build" >>"$log" 2>&1 || { tail -n 40 "$log" >&2; exit 3; }
find "$build" -name '*.gcda' -delete
counts=$build/counts
rm -rf "$counts" && mkdir -m 1777 "$counts"  # some tests give up their privileges
status=0
KVC_COVERAGE_COUNTS="$counts" KVC_ROOT="$root" ctest --test-dir "$build" -j "$(nproc)" "$@" || status=$?  # what failed has covered something, too

# Each process's counts, added up; what was cut off is left out.
merged=$build/merged
rm -rf "$merged"
for folder in "$counts"/*; do
  if [ ! -e "$merged" ]; then
    cp -r "$folder" "$merged"
  elif gcov-tool merge -o "$merged.new" "$merged" "$folder" >/dev/null 2>&1; then
    rm -rf "$merged" && mv "$merged.new" "$merged"
  fi
done
cp -r "$merged$build/." "$build/"
for room in $rooms; do
  (cd "$build" && gcov --json-format --stdout --branch-probabilities $(find "harness/CMakeFiles/kvc_$room.dir" -name '*.gcda')) |
    python3 "$root/tests/coverage.py" "$room" "$root"
done
exit $status
