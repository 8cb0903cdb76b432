"""The first page of `kvc serve`: a row a compressor with its measured bytes and its accuracy by task, each a link to the
samples behind it. Its numbers are those of `kvc table` (the query table_summary)."""

import json
import re
import sqlite3
from collections import Counter
from html import escape
from urllib.parse import quote

from datasette import Response, hookimpl
from datasette.database import QueryInterrupted

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 0 20px 40px; max-width: 1680px; color: #1c2024; background: #fff; }
a { color: #0a58ca; text-decoration: none; } a:hover { text-decoration: underline; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 12px; border-bottom: 1px solid #d8dde2; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 130px; position: sticky; left: 0; background: #fff; }
small { color: #5c6670; } ul { columns: 3 300px; padding-left: 18px; }
"""


def name_of(cell):
    return cell["label"] or f"{cell['plugin']} {cell['options']}".strip()


def packed(cells):
    """-> [[cell, ...]], as harness/analysis/rows_of.h packs them: one cell a task, all of one plugin and variant; those whose
    prompt is a user's turn, too, in their chat frame. What is no turn stands in the rows of all frames."""
    rows = []
    for cell in sorted(cells, key=lambda cell: not cell["chat_json"]):
        frames = set()
        for row in rows:
            same = all(row[0][key] == cell[key] for key in ("plugin", "variant"))
            fits = row[0]["chat_json"] not in frames and (not cell["chat_json"] or row[0]["chat_json"] == cell["chat_json"])
            if same and fits and not (cell["chat_json"] and frames) and cell["task"] not in {other["task"] for other in row}:
                row.append(cell)
                frames.add(row[0]["chat_json"])
        if not frames:
            rows.append([cell])
    return rows


def facts_of(cell):
    """-> {name: text}: what a row's cells have in common, most telling first."""
    model, build, _, settings = cell["variant"].split("\n")
    facts = {"options": cell["options"]}
    for part in (cell["chat_json"] or "{}", settings, model):
        facts.update({key: value if isinstance(value, str) else json.dumps(value) for key, value in json.loads(part).items()})
    return {**facts, "plugin": build[:12]}


def tell_apart(rows):
    """Rows of one name say in what they differ."""
    for name, count in Counter(row["name"] for row in rows).items():
        same = [row for row in rows if row["name"] == name]
        facts = [facts_of(row["first"]) for row in same]
        keys = [key for key in dict.fromkeys(key for of_row in facts for key in of_row)
                if len({of_row.get(key) for of_row in facts}) > 1]
        for row, of_row in zip(same, facts):
            told = [of_row.get(key, "") if key == "options" else f"{key} {of_row.get(key, 'none')}" for key in keys]
            row["name"] += f" ({', '.join(told)})" if told and count > 1 else ""


def rows_of(cells):
    """-> [{"name", "kv": percent or None, "tasks": {task: cell}}]; the sizes are ratios of sums over samples."""
    many = len({cell["model"] for cell in cells}) > 1
    rows = []
    for of_row in packed(cells):
        first = of_row[0]
        name = f"{first['model']}: {name_of(first)}" if many else name_of(first)
        held, exact = (sum(cell[key] or 0 for cell in of_row) for key in ("kv_bytes", "kv_bytes_fp16"))
        rows.append({"name": name, "first": first, "tasks": {cell["task"]: cell for cell in of_row},
                     "kv": 100 * held / exact if exact else None})
    tell_apart(rows)
    return rows


def value_of(row, column):
    if column in ("name", "kv"):
        return row[column]
    return row["tasks"][column]["accuracy_percent"] if column in row["tasks"] else None


def ordered(rows, column, falling):
    known = [row for row in rows if value_of(row, column) is not None]
    known.sort(key=lambda row: value_of(row, column), reverse=falling)
    return known + [row for row in rows if value_of(row, column) is None]


def heading(column, text, sort, falling):
    down = falling if column != sort else not falling
    mark = "" if column != sort else " ▼" if falling else " ▲"
    return f'<th><a href="?_sort={quote(column)}&amp;_desc={int(down)}">{escape(text)}</a>{mark}</th>'


def score(cell, base):
    if not cell or cell["accuracy_percent"] is None:
        return "<td></td>"
    link = f"{base}/sample?cell_key={quote(cell['key'])}"
    interval = f"[{cell['low_percent']:.1f}, {cell['high_percent']:.1f}]"
    return f'<td><a href="{escape(link)}">{cell["accuracy_percent"]:.1f}</a> <small>{interval}, n {cell["n_ok"]}</small></td>'


def links_of(queries, base):
    return "".join(f'<li><a href="{base}/{quote(query)}">{escape(title)}</a></li>' for query, title in queries)


def page(name, base, cells, here, others, sort, falling):
    shown = [cell for cell in cells if not cell["suspect"]]
    tasks = sorted({cell["task"] for cell in shown})
    sort = sort if sort in ["name", "kv", *tasks] else "kv"
    heads = [heading("name", "compressor", sort, falling), heading("kv", "KV size [% of 16 bits]", sort, falling)]
    heads += [heading(task, task + " [%]", sort, falling) for task in tasks]
    body = ""
    for row in ordered(rows_of(shown), sort, falling):
        size = "" if row["kv"] is None else f"{row['kv']:.1f}"
        body += f"<tr><td>{escape(row['name'])}</td><td>{size}</td>"
        body += "".join(score(row["tasks"].get(task), base) for task in tasks) + "</tr>\n"
    n_suspect = len(cells) - len(shown)
    left_out = f" {n_suspect} suspect cells are left out." if n_suspect else ""
    return f"""<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>kvc: {escape(name)}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head><body>
<h1>{escape(name)}</h1>
<p>Accuracy by task with its 95 % interval, and the bytes that were measured. A heading sorts; a figure leads to its
samples.{left_out}</p>
<div class="wide"><table id="leaderboard"><thead><tr>{"".join(heads)}</tr></thead><tbody>
{body}</tbody></table></div>
<h2>Queries</h2><ul>{links_of(here, base)}</ul>
<details><summary>Queries that find nothing here, or want a cell's key (a link in the others gives it)</summary>
<ul>{links_of(others, base)}</ul></details>
<p><a href="{base}">All tables, and SQL</a></p></body></html>"""


async def has_rows(datasette, name, sql):
    """Whether a query finds anything where its fields are left empty."""
    try:
        fields = dict.fromkeys(re.findall(r":(\w+)", sql), "")
        return bool((await datasette.execute(name, sql, fields, page_size=1, log_sql_errors=False)).rows)
    except (sqlite3.Error, QueryInterrupted):
        return False


async def leaderboard(datasette, request):
    name = next(name for name in datasette.databases if name != "_internal")
    queries = await datasette.get_canned_queries(name, None)
    sql = queries["table_summary"]["sql"]
    answer = await datasette.execute(name, sql, {"experiment": ""})
    cells = [dict(row) for row in answer.rows]
    here, others = [], []
    for query, about in queries.items():
        fits = await has_rows(datasette, name, about["sql"])
        (here if fits else others).append((query, about.get("title") or query))
    return Response.html(page(name, datasette.urls.database(name), cells, here, others, request.args.get("_sort"),
                              request.args.get("_desc", "0") == "1"))


@hookimpl
def register_routes():
    return [(r"^/$", leaderboard)]


@hookimpl
def render_cell(value, column, table, database, datasette):
    """In queries, a cell's key leads to its samples and its bytes."""
    from markupsafe import Markup

    if table or column not in ("cell_key", "key") or not isinstance(value, str) or not value:
        return None
    base, key = datasette.urls.database(database), quote(value)
    return Markup(f'<a href="{base}/sample?cell_key={key}">{escape(value[:12])}</a> '
                  f'<a href="{base}/bytes_by_kind?cell_key={key}">bytes</a>')
