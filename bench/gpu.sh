#!/usr/bin/env bash
# Tests and measures what a GPU is needed for, in steps, the most telling first. Each has a time limit, and one that
# passed is not run again in the same results folder (--again runs it).
#   bench/gpu.sh [--fast] [--emulated] [--again] BUILD [STEP...]
#     BUILD       a build of this tree, or what bench/gpu_pack.sh packed, unpacked
#     --fast      few repetitions, batches of 1 and 16: under four minutes on an H100
#     --emulated  all steps on the emulated device, on a machine without a GPU; says nothing about speed
#   machine       what the machine is, copy bandwidth, the program's libraries
#   instructions  each inline instruction and the sample kernels, by a warp
#   kernels       attention and products against float64, thousands of shapes
#   devices       memory, clocks and messages of devices
#   attend        the kernel of attention by itself, by format: its share of the copy bandwidth
#   speed         decode steps of one layer over 32,768 tokens, by method, with their share of the copy bandwidth
#   twins         every plugin on the device beside the CPU: attention, stored bits, bytes
#   profile       kernels by Nsight Compute, where it is installed: time, bytes read, bandwidth
#   quickstart    the embedded model on the device beside the CPU
#   baseline      torch's attention over 16-bit caches
#   table6        GEAR's Table 6: LLaMA2-7B's shape with drawn weights of 8 bits, by batch
#   sanitizer     one run under compute-sanitizer's memcheck, where it is installed
#   summary       what came of the steps; printed at the end of every run
# Environment: KVC_TORCH (a virtual environment or torch package folder of torch 2.11 with CUDA; else python3's),
# KVC_DEVICE (cuda:0), KVC_RESULTS (bench/results/DEVICE): a folder for logs and JSON.
set -uo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
usage="usage: bench/gpu.sh [--fast] [--emulated] [--again] BUILD [STEP...]"
steps="machine instructions kernels devices attend speed twins profile quickstart baseline table6 sanitizer summary"
fast_steps="machine instructions kernels devices attend speed twins profile summary"
fast='' emulated='' again=''
while [[ ${1:-} == --* ]]; do
  case "$1" in
    --fast | --emulated | --again) declare "${1#--}=yes" ;;
    *)
      echo "bench/gpu.sh: option '$1', allowed: --fast, --emulated, --again; $usage" >&2
      exit 2
      ;;
  esac
  shift
done
build=$(readlink -f "${1:?$usage}")
shift
for step; do
  [[ " $steps " != *" $step "* ]] || continue
  echo "bench/gpu.sh: step '$step', allowed: ${steps// /, }; $usage" >&2
  exit 2
done
if [ $# = 0 ]; then
  [ -z "$fast" ] || steps_asked=$fast_steps
  read -ra chosen <<<"${steps_asked:-$steps}"
  set -- "${chosen[@]}"
fi

device=${KVC_DEVICE:-cuda:0}
[ -z "$emulated" ] || device=cuda-emulated
results=${KVC_RESULTS:-$root/bench/results/${device//:/-}}
mkdir -p "$results"

# LibTorch's folder, and a Python that imports it.
python=python3
package=${KVC_TORCH:-}
[ ! -x "$package/bin/python" ] || python=$package/bin/python
for folder in "$package"/lib/python3*/site-packages/torch; do [ ! -d "$folder" ] || package=$folder; done
if [ -z "$package" ]; then
  python=$(python3 -c 'import sys; print(sys.executable)')  # behind a wrapper, too
  package=$(python3 -c 'import os, torch; print(os.path.dirname(torch.__file__))') || {
    echo "bench/gpu.sh: python3 has no torch; expected torch 2.11, or KVC_TORCH" >&2
    exit 3
  }
fi
[ -f "$package/lib/libtorch_cpu.so" ] || { echo "bench/gpu.sh: no $package/lib/libtorch_cpu.so" >&2 && exit 3; }

# Our programs alone: a Python would find libraries that are older than its own.
export KVC_ROOT="$root" KVC_TEST_DEVICE="$device" OMP_NUM_THREADS=${OMP_NUM_THREADS:-}
[ -n "$OMP_NUM_THREADS" ] || unset OMP_NUM_THREADS
path=$package/lib:$build/lib:$build/lib/system${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
ours() { env LD_LIBRARY_PATH="$path" "$@"; }
if [ -f "$build/paths.txt" ]; then  # where the tests look for what lies elsewhere here
  { read -r sources && read -r built; } <"$build/paths.txt"
  [ -e "$sources" ] || { mkdir -p "$(dirname "$sources")" && ln -s "$root" "$sources"; }
  [ -e "$built" ] || { mkdir -p "$(dirname "$built")" && ln -s "$build" "$built"; }
fi

deadline=0
within() {  # runs it until the step's time is over
  local left=$((deadline - SECONDS))
  timeout -k 5 "$((left > 1 ? left : 1))" "$@"
}
with_ours() { ours timeout -k 5 "$((deadline > SECONDS + 1 ? deadline - SECONDS : 1))" "$@"; }

# A test program's tests, spread over processes; of the log only what failed is shown.
run_tests() {
  local name=$1 program=$2 filter=$3 n=$4 i failed=0 shards=()
  for ((i = 0; i < n; ++i)); do
    GTEST_TOTAL_SHARDS=$n GTEST_SHARD_INDEX=$i OMP_NUM_THREADS=1 with_ours "$build/bin/$program" \
      --gtest_filter="$filter" --gtest_color=no >"$results/$name.$i.log" 2>&1 &
    shards+=($!)
  done
  for ((i = 0; i < n; ++i)); do
    wait "${shards[$i]}" || { failed=$? && echo "$name, process $i: exit status $failed" >>"$results/$name.$i.log"; }
  done
  cat "$results/$name".[0-9]*.log >"$results/$name.log"
  rm "$results/$name".[0-9]*.log
  grep -hE '^\[  FAILED  \].*ms\)$|Failure$|exit status|terminate called|what\(\):' "$results/$name.log" | head -n 12
  note="$(grep -c '^\[       OK \]' "$results/$name.log") passed"
  note+=", $(grep -cE '^\[  FAILED  \].*ms\)$' "$results/$name.log") failed"
  note+=", $(grep -c '^\[  SKIPPED \].*ms)$' "$results/$name.log") skipped"
  return "$failed"
}
processes() { [ -n "$emulated" ] && nproc || echo "$(($(nproc) > 12 ? 12 : $(nproc)))"; }

machine() {
  {
    nvidia-smi --query-gpu=name,memory.total,driver_version,clocks.max.sm,clocks.max.mem,mig.mode.current \
      --format=csv,noheader || echo "no nvidia-smi"
    ours ldd "$build/bin/kvc" "$build"/lib/*.so | grep 'not found'
    ours "$build/bin/kvc" --version
  } 2>&1 | tee "$results/machine.txt"
  within "$python" "$root/bench/gpu_baseline.py" "$device" copy | tee "$results/copy.json"
  note=$(grep -o '"copy_gb_a_second": [0-9]*' "$results/copy.json" | sed 's/.*: //') && note="copies $note GB/s"
}

instructions() { run_tests instructions test_cuda 'Fragments.*:Instructions.*:SampleKernels.*:*MatrixProducts*' 1; }

kernels() {
  local filter='AttendCodes.*:Products.*-*InFourOrders'
  [ -z "$emulated" ] || filter='AttendCodes.GrowingScores*:AttendCodes.Scales*:Products.Softmax*'
  run_tests kernels test_cuda "$filter" "$(processes)"
}

devices() {
  run_tests devices test_sandbox 'Devices.*:DeviceMarks.*' 1 || return
  run_tests weights test_run 'DeviceWeights.*' 1
}

attend() {
  local copy
  copy=$(grep -o '"copy_gb_a_second": [0-9]*' "$results/copy.json" | sed 's/.*: //')
  with_ours "$build/bin/bench_attend" "$device" "${copy:-1}" 2>&1 | tee "$results/attend.json"
}

twins() {
  local filter='*OnADevice*-*AStepOnADevice*'
  [ -z "$fast" ] || filter='*OnADevice*-*AStepOnADevice*:*ConformsOnADevice*'
  [ -z "$emulated" ] || filter='*AttendsToALongPromptOnADevice*/kivi:AttendsOnADevice.ToCodesBehind*'
  run_tests twins test_conformance "$filter" "$(processes)"
}

# run_bench NAME CONFIG SETTING...: what was measured until the time was over is kept
run_bench() {
  local name=$1 config=$2 setting settings=() failed=0
  for setting in "${@:3}"; do settings+=(--set "$setting"); done
  with_ours "$build/bin/kvc" run "$root/configs/$config.yaml" --db "$results/$name.sqlite" \
    --set "bench.device=$device" "${settings[@]}" >"$results/$name.log" 2>&1 || failed=$?
  grep -iE 'error|failed|refused' "$results/$name.log" | cut -c1-200 | head -n 8
  ours "$build/bin/kvc" table bench --db "$results/$name.sqlite" --format json >"$results/$name.json" || failed=$?
  return "$failed"
}
tiny=(bench.prompt_tokens=[40] bench.batch=[1] bench.new_tokens=1 bench.repeats=1 bench.warmups=0)
few='[full, {token_group: {bits: 4, group_size: 32}}, {kivi: {bits: 4, group_size: 32, recent: 128}},
  {kivi: {bits: 2, group_size: 32, recent: 128}},
  {gear: {backbone: kivi, bits: 2, group_size: 64, buffer: 64}}]'

speed() {
  local settings=(bench.prompt_tokens=[32768] bench.batch=[1,16])
  [ -z "$fast" ] || settings+=(bench.new_tokens=8 bench.repeats=2 "compressors=$few")
  [ -z "$emulated" ] || settings=("${tiny[@]}")
  run_bench speed bench_gpu "${settings[@]}" || return
  within "$python" "$root/bench/gpu_summary.py" "$results" | tee "$results/summary.txt"
  note="$(grep -c '"compressor"' "$results/speed.json") rows"
}

profile() {
  local tool
  tool=$(command -v ncu) || { note="ncu is not installed" && return; }
  [ -z "$emulated" ] || { note="not emulated" && return; }
  within "$tool" --clock-control none --target-processes all --csv --page raw --print-units base \
    --metrics gpu__time_duration.sum,dram__bytes_read.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed \
    --kernel-name 'regex:attend_codes|join_splits|score_|v_sums_|apply_softmax' --launch-count 24 \
    env LD_LIBRARY_PATH="$path" "$build/bin/kvc" run "$root/configs/bench_gpu.yaml" --db "$results/profile.sqlite" --set "bench.device=$device" \
    --set bench.prompt_tokens=[32768] --set bench.batch=[16] --set bench.new_tokens=2 --set bench.repeats=1 \
    --set bench.warmups=0 --set "compressors=$few" \
    >"$results/profile.csv" 2>"$results/profile.log"
}

quickstart() {
  for where in cpu "$device"; do
    with_ours "$build/bin/kvc" run "$root/configs/quickstart.yaml" --db "$results/quickstart.sqlite" \
      --limit "${KVC_LIMIT:-$([ -n "$emulated" ] && echo 1 || echo 20)}" --set "device=$where" \
      --set "name=${where//:/-}" --set workers=1 ${emulated:+--set tasks=[demo/arithmetic]} \
      >>"$results/quickstart.log" 2>&1 || return
  done
  ours "$build/bin/kvc" table summary --db "$results/quickstart.sqlite" --format json >"$results/quickstart.json"
}

baseline() { within "$python" "$root/bench/gpu_baseline.py" "$device" >"$results/baseline.json"; }

table6() {
  local settings=()
  [ -z "$emulated" ] || settings=(bench.config=models/demo/config.json bench.prompt_tokens=[160] bench.batch=[1]
    bench.new_tokens=1)
  [ -z "$fast" ] || settings=(bench.new_tokens=50)
  run_bench table6 bench_gpu_table6 "${settings[@]}"
}

sanitizer() {
  local tool
  tool=$(command -v compute-sanitizer) || { note="compute-sanitizer is not installed" && return; }
  [ -z "$emulated" ] || { note="not emulated" && return; }
  within "$tool" --tool memcheck --error-exitcode 9 --log-file "$results/memcheck.txt" \
    env LD_LIBRARY_PATH="$path" "$build/bin/test_conformance" --gtest_brief=1 \
    --gtest_filter='*AttendsOnADeviceAsOnTheCpu/kivi:*AttendsOnADeviceAsOnTheCpu/gear' >"$results/sanitizer.log" 2>&1
}

limit_of() {  # seconds
  case "$1" in
    machine) echo 90 ;;
    instructions | devices | attend) echo 60 ;;
    speed | twins | kernels) [ -n "$fast" ] && echo 110 || echo 460 ;;
    profile) echo 70 ;;
    *) echo 460 ;;
  esac
}

summary() {
  local file
  printf '\n%-14s%-10s%8s  %s\n' step result seconds notes
  for file in $steps; do
    [ ! -f "$results/$file.step" ] || cat "$results/$file.step"
  done
  [ ! -f "$results/summary.txt" ] || cat "$results/summary.txt"
}

worst=0
for step; do
  [ "$step" != summary ] || continue
  if [ -z "$again" ] && grep -q ' passed ' "$results/$step.step" 2>/dev/null; then continue; fi
  echo "== $step"
  start=$SECONDS
  deadline=$((SECONDS + $(limit_of "$step"))) note='' failed=0
  "$step" || failed=$?
  result=passed
  [ "$failed" = 0 ] || { result="failed $failed" && worst=1; }
  [ "$failed" != 124 ] && [ "$failed" != 137 ] || result=timed-out
  printf '%-14s%-10s%8d  %s\n' "$step" "$result" "$((SECONDS - start))" "$note" >"$results/$step.step"
done
summary
exit "$worst"
