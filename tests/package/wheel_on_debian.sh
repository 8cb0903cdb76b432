#!/usr/bin/env bash
# The wheel on bare Debian systems, as root: tests/package/wheel_on_debian.sh WHEEL FOLDER [SUITE...]
# For each suite (default: bookworm trixie) a minimal system with Python is made in FOLDER, where an ordinary user installs
# the wheel, runs the quickstart, verifies a compressor in Python, and writes, builds and verifies a plugin with the
# distribution's compiler. Prints each command with its seconds. Not part of the tests: it downloads 1 GB a suite. Needs
# debootstrap.
set -euo pipefail
wheel=$(realpath "$1") folder=$(realpath -m "$2")
shift 2
suites=("$@")
[ $# -gt 0 ] || suites=(bookworm trixie)

make_system() {  # make_system SUITE
  local system=$folder/$1
  [ -x "$system/usr/bin/python3" ] ||
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates "$1" "$system" \
      http://deb.debian.org/debian >"$folder/$1.log"
  # The machine's way to the network: its resolver, certificates and proxies.
  cp -L /etc/resolv.conf "$system/etc/resolv.conf"
  cp -L /etc/ssl/certs/ca-certificates.crt "$system/etc/ssl/certs/ca-certificates.crt"
  chroot "$system" id ada >/dev/null 2>&1 || chroot "$system" useradd --create-home ada
  rm -rf "$system"/home/ada/{.cache,venv,results,mine}
  cp "$wheel" "$system/home/ada/"
}

in_system() {  # in_system SUITE USER COMMAND
  chroot "$folder/$1" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 USER="$2" \
    HOME="$([ "$2" = root ] && echo /root || echo "/home/$2")" ${http_proxy:+http_proxy="$http_proxy"} \
    ${https_proxy:+https_proxy="$https_proxy"} PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
    setpriv --reuid "$2" --regid "$2" --init-groups sh -c "cd && $3"
}

step() {  # step SUITE USER COMMAND
  local started log=$folder/$1.step
  printf '%s$ %s\n' "$1:$2" "$3"
  started=$(date +%s.%N)
  in_system "$1" "$2" "$3" >"$log" 2>&1 || { tail -n 30 "$log"; exit 1; }
  tail -n "${lines:-3}" "$log"
  awk -v a="$started" -v b="$(date +%s.%N)" 'BEGIN { printf "  (%.1f s)\n", b - a }'
}

mkdir -p "$folder"
for suite in "${suites[@]}"; do
  make_system "$suite"
  system=$folder/$suite
  mountpoint -q "$system/proc" || mount -t proc proc "$system/proc"
  trap 'umount "$system/proc"' EXIT  # /dev has the nodes that debootstrap made: the machine's own are nobody's to remove
  step "$suite" ada "python3 -m venv venv && venv/bin/pip install ./$(basename "$wheel")"
  lines=6 step "$suite" ada "venv/bin/kvc --version"
  lines=12 step "$suite" ada "venv/bin/kvc run quickstart"
  step "$suite" ada "venv/bin/python -c 'import kvc; print(kvc.results(\"results/quickstart.sqlite\").table(\"summary\"))'"
  step "$suite" ada "du -sh .cache/kvc venv/lib/python3*/site-packages/kvc*"
  printf '%s\n' 'import numpy as np' 'import kvc' 'class Eighths(kvc.Compressor):' '    "eighths in 8 bits"' \
    '    def append(self, k, v, q):' \
    '        new = tuple(np.clip(np.rint(8 * x), -127, 127).astype(np.int8) for x in (k, v))' \
    '        self.k, self.v = new if self.length == 0 else (np.concatenate([a, b], 1) for a, b in zip((self.k, self.v), new))' \
    '    def attended(self):' '        return self.k / np.float32(8), self.v / np.float32(8)' >"$system/home/ada/eighths.py"
  step "$suite" ada "venv/bin/pip install numpy && export KVC_PYTHON=\$HOME/venv/bin/python &&
    venv/bin/kvc run quickstart --compressor eighths.py --limit 5 --db eighths.sqlite && venv/bin/kvc plugin verify eighths.py"
  lines=1 step "$suite" root "apt-get update && apt-get install -y --no-install-recommends g++ cmake make libboost-dev"
  step "$suite" ada "venv/bin/kvc plugin new mine > new.txt && sh -c \"\$(grep -o 'cmake -S.*' new.txt)\""
  step "$suite" ada "venv/bin/kvc plugin verify mine/build/mine.so"
  trap - EXIT
  umount "$system/proc"
done
