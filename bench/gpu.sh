#!/usr/bin/env bash
# Runs what a GPU is needed for, on a machine that has one and neither build nor network: from a build carried there.
#   bench/gpu.sh BUILD TORCH [STEP...]    BUILD: a finished build of this tree; TORCH: the virtual environment or folder
#                                         of torch 2.11 with CUDA; each step takes less than 10 minutes
#   machine     what the machine is
#   tests       kernels, model and devices
#   twins       every plugin on the device: conformance, attention and bytes beside the CPU's
#   sanitizer   one run under compute-sanitizer's memcheck, where it is installed
#   quickstart  the embedded model on the device beside the CPU: answers must be close, bytes equal
#   baseline    the device's copy bandwidth, and torch's attention over 16-bit caches
#   speed       decode steps of every method over 8,192 and 32,768 tokens, bytes a step beside them
#   table6      GEAR's Table 6: LLaMA2-7B's shape with drawn weights of 8 bits, 1,000 tokens in, 500 out, by batch
#   summary     of speed: what share of copy bandwidth each step reads at, and torch's attention beside it
# Results go to $KVC_RESULTS (bench/results/DEVICE) as JSON. KVC_DEVICE (cuda:0): another device; cuda-emulated tries the
# script itself.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
steps="machine tests twins sanitizer quickstart baseline speed table6 summary"
usage="usage: bench/gpu.sh BUILD TORCH [STEP...], STEP: ${steps// /, }"
build=${1:?$usage}
torch=${2:?$usage}
shift 2
device=${KVC_DEVICE:-cuda:0}
results=${KVC_RESULTS:-$root/bench/results/${device//:/-}}
package=$torch
for folder in "$torch"/lib/python3*/site-packages/torch; do [ ! -d "$folder" ] || package=$folder; done
export KVC_ROOT="$root" KVC_TEST_DEVICE="$device"
export LD_LIBRARY_PATH="$package/lib:$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
python=$([ -x "$torch/bin/python" ] && echo "$torch/bin/python" || echo python3)
mkdir -p "$results"

machine() {
  { nvidia-smi --query-gpu=name,memory.total,driver_version,clocks.max.sm,clocks.max.mem --format=csv,noheader ||
    echo "no nvidia-smi"; } | tee "$results/machine.txt"
  "$build/bin/kvc" --version | tee -a "$results/machine.txt"
}

tests() {
  for name in devices cuda model; do
    "$build/bin/test_$name" --gtest_brief=1 --gtest_output="json:$results/test_$name.json"
  done
}

twins() {
  "$build/bin/test_conformance" --gtest_brief=1 --gtest_output="json:$results/twins.json" \
    --gtest_filter='*OnADevice*'
}

sanitizer() {
  local tool
  tool=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
  if [ ! -x "$tool" ]; then
    echo "compute-sanitizer is not installed"
    return
  fi
  "$tool" --tool memcheck --log-file "$results/memcheck.txt" "$build/bin/test_conformance" --gtest_brief=1 \
    --gtest_filter='*AttendsOnADevice*/kivi:*AttendsOnADevice*/gear'
}

quickstart() {
  for where in cpu "$device"; do
    "$build/bin/kvc" run "$root/configs/quickstart.yaml" --db "$results/quickstart.sqlite" --limit "${KVC_LIMIT:-20}" \
      --set "device=$where" --set "name=${where//:/-}" --set workers=1
  done
  "$build/bin/kvc" table summary --db "$results/quickstart.sqlite" --format json >"$results/quickstart.json"
}

baseline() {
  "$python" "$root/bench/gpu_baseline.py" "$device" >"$results/baseline.json"
  cat "$results/baseline.json"
}

# run_bench NAME CONFIG SETTING...: settings shorten it where it is tried, KVC_SPEED="bench.prompt_tokens=[64]" the step
# `speed`, KVC_TABLE6 `table6`.
run_bench() {
  local name=$1 config=$2 setting settings=()
  for setting in "${@:3}"; do settings+=(--set "$setting"); done
  "$build/bin/kvc" run "$root/configs/$config.yaml" --db "$results/$name.sqlite" --set "bench.device=$device" \
    "${settings[@]}"
  "$build/bin/kvc" table bench --db "$results/$name.sqlite" --format json >"$results/$name.json"
}

speed() {
  run_bench speed bench_gpu ${KVC_SPEED:-}
}

table6() {
  run_bench table6 bench_gpu_table6 ${KVC_TABLE6:-}
}

summary() {
  "$python" "$root/bench/gpu_summary.py" "$results"
}

[ $# -gt 0 ] || read -ra all <<<"$steps"
[ $# -gt 0 ] || set -- "${all[@]}"
for step; do
  case " $steps " in
    *" $step "*) "$step" ;;
    *)
      echo "bench/gpu.sh: step '$step'; $usage" >&2
      exit 2
      ;;
  esac
done
