"""Runs kvc in a terminal of its own and holds the time left that it showed against what was left.

Arguments: a command, e.g. build/bin/kvc run mine.yaml --db fresh.sqlite
"""

import fcntl
import os
import pty
import re
import struct
import sys
import termios
import time

SECONDS = {"s": 1, "min": 60, "h": 3600}
SHARES = (0.05, 0.1, 0.25, 0.5, 0.75)


def seconds(words):
    return sum(int(n) * SECONDS[unit] for n, unit in re.findall(r"(\d+) (s|min|h)\b", words))


def watch(command):
    """-> (seconds since the start, seconds left or None, the bar) of each bar that was drawn"""
    child, terminal = pty.fork()
    if child == 0:
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
    start, bars = time.time(), []
    while True:
        try:
            data = os.read(terminal, 1 << 16)
        except OSError:  # the child has ended
            break
        if not data:
            break
        for bar in re.findall(rb"\r(\[[#.]+\][^\r\x1b]*)", data):
            text = bar.decode(errors="replace")
            left = re.search(r"so far, ((?:\d+ (?:h|min|s) ?)+)left", text)
            bars.append((time.time() - start, seconds(left[1]) if left else None, text))
    os.waitpid(child, 0)
    return bars


def main():
    bars = watch(sys.argv[1:])
    begin, end = bars[0][0], bars[-1][0]
    print(f"{end - begin:.0f} s in all; at, left as said, left in truth, said / truth")
    for share in SHARES:
        now, said, _ = [bar for bar in bars if bar[0] <= begin + share * (end - begin)][-1]
        ratio = f"{said / (end - now):.2f}" if said is not None else "none"
        print(f"{100 * share:3.0f} % {said} s {end - now:.0f} s {ratio}")


main()
