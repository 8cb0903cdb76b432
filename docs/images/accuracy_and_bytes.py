#!/usr/bin/env python3
"""Draws accuracy against measured KV bytes, one point a compressor with its 95 % interval, as an SVG.

    docs/images/accuracy_and_bytes.py DATABASE EXPERIMENT TASK "TITLE" > docs/images/NAME.svg

All numbers are the program's (`kvc query`); suspect cells are left out. KVC names the program, ./kvc without. Labels
go where they cover nothing; first served is what lies on the front (nothing has fewer bytes and is as accurate), and a
point without room has its name in the picture's tooltip. The white card keeps it legible on dark pages.
"""
import json
import os
import pathlib
import subprocess
import sys
from html import escape

ROOT = pathlib.Path(__file__).resolve().parents[2]
SQL = """SELECT e.label, c.is_lossy, c.bits, count(*) AS n, 100.0 * c.kv_bytes / c.kv_bytes_fp16 AS kv,
  100 * avg(s.value) AS y, 100 * score_low(s.value) AS low, 100 * score_high(s.value) AS high
FROM experiment_cell AS e
JOIN v_cell AS c ON c.key = e.cell_key AND c.suspect = ''
JOIN score AS s ON s.cell_key = c.key AND s.position = 0
WHERE e.experiment = '{}' AND c.task = '{}' AND e.label <> ''
GROUP BY e.label ORDER BY kv, y"""
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 880, 520, 64, 74, 850, 460
GROUPS = [  # name, colour, whether a point belongs to it: the first that fits
    ("full precision", "#111111", lambda p: not p["is_lossy"]),
    ("8 bits", "#009e73", lambda p: p["bits"] == 8),
    ("4 bits", "#0072b2", lambda p: p["bits"] < 8 and p["bits"] > 2),
    ("2 bits", "#d55e00", lambda p: p["bits"] <= 2),
    ("tokens evicted, 16 bits", "#9a4f96", lambda p: True),
]


def read_points(database, experiment, task):
    sql = SQL.format(experiment.replace("'", "''"), task.replace("'", "''"))
    program = os.environ.get("KVC", str(ROOT / "kvc"))
    answer = subprocess.run([program, "query", "--db", database, "--format", "json", sql], check=True,
                            capture_output=True, text=True)
    points = json.loads(answer.stdout)["rows"]
    if not points:
        sys.exit(f"'{database}' holds no labelled cell of experiment '{experiment}' and task '{task}'")
    for point in points:
        point["group"] = next(i for i, group in enumerate(GROUPS) if group[2](point))
    return points


def front_first(points):
    best, front = -1.0, []
    for point in points:  # by bytes
        if point["y"] > best or not point["is_lossy"]:
            best = point["y"]
            front.append(point)
    return front + [p for p in points if p not in front]


def mark(group, x, y):
    colour = GROUPS[group][1]
    if group == 4:
        return f'<path d="M{x - 5:.1f} {y - 4:.1f}h10l-5 9z" fill="{colour}"/>'
    if group in (1, 3):
        return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="{colour}"/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"/>'


def overlap(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def place_labels(points, at):
    taken = [(x - 6, y - 6, x + 6, y + 6) for x, y, _, _ in map(at, points)]
    taken += [(x - 3, high, x + 3, low) for x, _, low, high in map(at, points)]
    for point in front_first(points):
        x, y, low, high = at(point)
        width = 6.2 * len(point["label"]) + 2 * sum(map(str.isupper, point["label"])) + 4
        places = [(x + 7, y - 7), (x - 7 - width, y - 7)]
        places += [(x - width * share, edge) for edge in (high - 15, low + 1) for share in (0.5, 0, 1)]
        places += [(x + 5 if right else x - 5 - width, y + shift) for shift in (-17, 3, -27, 13) for right in (1, 0)]
        for left, top in places:
            box = (left, top, left + width, top + 14)
            if left < LEFT or box[2] > RIGHT or top < TOP or box[3] > BOTTOM or any(overlap(box, t) for t in taken):
                continue
            taken.append(box)
            yield point, left + 2, top + 11
            break


def draw(points, title):
    top = max(p["high"] for p in points)
    top = 100 if top > 60 else 5 * (int(top) // 5 + 1)
    bottom = 5 * (int(min(p["low"] for p in points)) // 5)
    scale_x = lambda kv: LEFT + (RIGHT - LEFT) * kv / 105
    scale_y = lambda y: BOTTOM - (BOTTOM - TOP) * (y - bottom) / (top - bottom)
    at = lambda p: (scale_x(p["kv"]), scale_y(p["y"]), scale_y(p["low"]), scale_y(p["high"]))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
           f'font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="11" fill="#222">',
           f'<title>{escape(title)}</title>',
           f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="6" fill="#fff" stroke="#bbb"/>',
           f'<text x="{LEFT}" y="26" font-size="14" font-weight="bold">{escape(title)}</text>']
    for full in [p for p in points if not p["is_lossy"]]:
        low, high = scale_y(full["low"]), scale_y(full["high"])
        out.append(f'<rect x="{LEFT}" y="{high:.1f}" width="{RIGHT - LEFT}" height="{low - high:.1f}" fill="#ececec"/>')
    for tick in range(bottom, top + 1, 5 if top - bottom <= 40 else 10):
        y = scale_y(tick)
        out.append(f'<path d="M{LEFT} {y:.1f}H{RIGHT}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick}</text>')
    for tick in range(0, 101, 10):
        out.append(f'<text x="{scale_x(tick):.1f}" y="{BOTTOM + 18}" text-anchor="middle">{tick}</text>')
    out += [f'<path d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}" fill="none" stroke="#444"/>',
            f'<text x="{(LEFT + RIGHT) / 2}" y="{BOTTOM + 42}" text-anchor="middle">'
            'KV cache, measured bytes [% of 16 bits]</text>',
            f'<text x="18" y="{(TOP + BOTTOM) / 2}" text-anchor="middle" '
            f'transform="rotate(-90 18 {(TOP + BOTTOM) / 2})">accuracy [%], 95 % interval</text>']
    x = LEFT
    for i, (name, _, _) in enumerate(GROUPS):
        out.append(f'{mark(i, x + 5, 47)}<text x="{x + 15}" y="51">{name}</text>')
        x += 36 + 6.4 * len(name)
    out.append(f'<rect x="{x:.1f}" y="41" width="14" height="12" fill="#e4e4e4"/>'
               f'<text x="{x + 19:.1f}" y="51">interval of full precision</text>')
    for point in points:
        x, y, low, high = at(point)
        out.append(f'<g><title>{escape(point["label"])}: {point["y"]:.1f} [{point["low"]:.1f}, {point["high"]:.1f}] %, '
                   f'KV {point["kv"]:.1f} %</title><path d="M{x:.1f} {low:.1f}V{high:.1f}" '
                   f'stroke="{GROUPS[point["group"]][1]}" stroke-opacity="0.45"/>{mark(point["group"], x, y)}</g>')
    for point, x, y in place_labels(points, at):
        out.append(f'<text x="{x:.1f}" y="{y:.1f}" stroke="#fff" stroke-width="3" paint-order="stroke" '
                   f'stroke-linejoin="round">{escape(point["label"])}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    sys.stdout.write(draw(read_points(*sys.argv[1:4]), sys.argv[4]))
