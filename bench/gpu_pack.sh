#!/usr/bin/env bash
# Packs what bench/gpu.sh runs into one archive that runs on another machine beside a checkout of this tree: program,
# plugins, tests of devices, and the shared libraries that they need, but for LibTorch's, CUDA's, glibc's and GCC's.
#   bench/gpu_pack.sh BUILD ARCHIVE    BUILD: a finished build of this tree, with the targets below; ARCHIVE: .tar.xz
#   ninja -C BUILD program bench_attend test_cuda test_sandbox test_conformance test_run
#   bench/gpu_pack.sh BUILD kvc-gpu.tar.xz
# There, with glibc 2.36 or later and torch 2.11 (KVC_TORCH, or that of python3):
#   mkdir gpu && tar -xf kvc-gpu.tar.xz -C gpu && bench/gpu.sh gpu
set -euo pipefail
usage="usage: bench/gpu_pack.sh BUILD ARCHIVE"
build=$(readlink -f "${1:?$usage}")
archive=$(readlink -m "${2:?$usage}")
needed=(kvc bench_attend test_cuda test_sandbox test_conformance test_run)
most_bytes=40000000

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder"/{bin,lib,lib/system,plugins} "$(dirname "$archive")"

for name in "${needed[@]}"; do
  if [ ! -x "$build/bin/$name" ]; then
    echo "gpu_pack.sh: no $build/bin/$name; expected that it is built" >&2
    exit 3
  fi
  cp "$build/bin/$name" "$folder/bin/"
done
cp "$build"/lib/*.so "$folder/lib/"
cp "$build"/plugins/*.so "$folder/plugins/"

# What stays: LibTorch and what it brings along, and the system's own, which are never older there than here.
stays='/torch/lib/|/nvidia/|/(ld-linux[^/]*|lib(c|m|rt|dl|util|pthread|resolv|stdc\+\+|gcc_s))\.so'
for file in "$folder"/bin/* "$folder"/lib/*.so "$folder"/plugins/*.so; do
  LD_LIBRARY_PATH="$build/lib" ldd "$file"
done | awk '$2 == "=>" && $3 == "not" {print "missing", $1} $2 == "=>" && $3 ~ /^\// {print "at", $3}' | sort -u \
  >"$folder/closure"
if grep '^missing' "$folder/closure" >&2; then
  echo "gpu_pack.sh: these libraries were not found on this machine" >&2
  exit 3
fi
while read -r _ library; do
  [[ $library == "$build"/lib/* ]] || [[ $library =~ $stays ]] || cp -L "$library" "$folder/lib/system/"
done <"$folder/closure"
rm "$folder/closure"
strip --strip-unneeded "$folder"/bin/* "$folder"/lib/*.so "$folder"/lib/system/* "$folder"/plugins/*.so

# The folders that the tests were compiled with, which gpu.sh makes links of.
sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$build/CMakeCache.txt" >"$folder/paths.txt"
echo "$build" >>"$folder/paths.txt"

tar -C "$folder" -cf - . | xz -6 -T0 >"$archive"
bytes=$(stat -c %s "$archive")
echo "$archive: $bytes bytes, $(tar -tf "$archive" | grep -vc '/$') files"
if [ "$bytes" -gt "$most_bytes" ]; then
  echo "gpu_pack.sh: $archive has $bytes bytes, allowed: $most_bytes" >&2
  exit 3
fi
