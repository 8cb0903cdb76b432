#!/usr/bin/env bash
# Runs what a GPU is needed for, on a machine that has one and no build: from a build folder carried there.
#   bench/gpu.sh BUILD TORCH    BUILD: a finished build of this tree; TORCH: the virtual environment or folder of torch 2.11
# The machine, the model's tests, then the embedded model on cuda:0 beside the CPU: the accuracies must be close, since
# sums run in another order, and the bytes equal.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
build=${1:?usage: bench/gpu.sh BUILD TORCH}
torch=${2:?usage: bench/gpu.sh BUILD TORCH}
package=$(ls -d "$torch"/lib/python3*/site-packages/torch "$torch" 2>/dev/null | head -n 1)
export KVC_ROOT="$root" LD_LIBRARY_PATH="$package/lib:$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader
"$build/bin/test_model" --gtest_brief=1
"$build/bin/test_generate" --gtest_brief=1
for device in cpu cuda:0; do
  "$build/bin/kvc" run "$root/configs/quickstart.yaml" --db "$out/$device.sqlite" --limit 20 --set "device=$device" \
    --set workers=1
done
