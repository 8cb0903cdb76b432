"""The start page of `kvc serve`: one row per compressor with its measured size, its scores by task and, on running text,
its KL, each linked to its samples; and a Pareto figure. Values are those of `kvc table` (the query table_summary)."""

import json
import os
import re
import sqlite3
import sys
from html import escape
from urllib.parse import quote

from datasette import Response, hookimpl
from datasette.database import QueryInterrupted

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from page_parts import database_name, page_of  # noqa: E402


def options_of(cell):
    """"bits 2, group_size 32" -> its options; a composition, which names those of several plugins, is one."""
    if cell["options"] in ("", "defaults"):
        return []
    composed = " + " in cell["options"] or "; " in cell["options"]
    return [cell["options"]] if composed else re.split(r", (?![^\[{]*[\]}])", cell["options"])


def shared_options(cells):
    """{plugin: what all its compressors without a label have}, told once below the table; bits stay in the names."""
    shared = {}
    for cell in cells:
        if not cell["label"]:
            own = [option for option in options_of(cell) if not option.startswith("bits ")]
            shared[cell["plugin"]] = [option for option in shared.get(cell["plugin"], own) if option in own]
    return {plugin: options for plugin, options in shared.items() if options}


def name_of(cell, shared):
    if cell["label"]:
        return cell["label"]
    own = [option for option in options_of(cell) if option not in shared.get(cell["plugin"], [])]
    return f"{cell['plugin']} {', '.join(own)}".strip()


def settings_of(cell):
    return {**json.loads(cell["variant"].rsplit("\n", 1)[1]), **json.loads(cell["chat_json"] or "{}")}


def options_apart(cell, others):
    return [f"{cell['plugin']} {cell['options']}"]


def settings_apart(cell, others):
    """The same texts as in `kvc table`."""
    mine, theirs = settings_of(cell), [settings_of(other) for other in others]
    keys = {key for their in theirs for key in {*mine, *their} if mine.get(key) != their.get(key)}
    if "chat_template" in keys:
        keys -= {"chat_frame", "chat_sha256", "add_special_tokens"}
    values = {key: mine.get(key, "none") for key in sorted(keys)}
    return [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in values.items()]


def binary_apart(cell, others):
    return ["plugin_sha256=" + cell["variant"].rsplit("\n", 3)[1][:12]]


def cell_apart(cell, others):
    return ["cell " + cell["key"][:12]]


def tell_apart(rows):
    """Rows with the same name get their difference appended: options under one label, else settings, binaries or cells."""
    for how in (options_apart, settings_apart, binary_apart, cell_apart):
        names = [row["name"] for row in rows]
        for name in {name for name in names if names.count(name) > 1}:
            same = [row for row in rows if row["name"] == name]
            said = {id(row): how(row["first"], [other["first"] for other in same]) for row in same}
            if len({*map(str, said.values())}) > 1:
                for row in same:
                    row["name"] += f" ({' '.join(said[id(row)])})" if said[id(row)] else ""


def rows_of(cells, shared):
    """-> [{"name", "kv": percent or None, "tasks": {task: cell}}], the rows of `kvc table`: one compressor, its options and
    settings, its tasks of user's turns in one chat frame; what is no turn is in the rows of all frames. A second cell of
    one task starts a row. The sizes are ratios of sums over samples."""
    many, rows = len({cell["model"] for cell in cells}) > 1, []
    for cell in sorted(cells, key=lambda cell: not cell["chat_json"]):
        frames = {}
        for row in rows:
            first = row["first"]
            if (first["plugin"], first["variant"]) == (cell["plugin"], cell["variant"]) and cell["task"] not in row["tasks"]:
                frames.setdefault(first["chat_json"], row)
        found = [row for frame, row in frames.items() if not cell["chat_json"] or frame == cell["chat_json"]]
        if not found:
            name = name_of(cell, shared)
            found = [{"name": f"{cell['model']}: {name}" if many else name, "first": cell, "tasks": {}}]
            rows += found
        for row in found:
            row["tasks"][cell["task"]] = cell
    for row in rows:
        size, exact = (sum(cell[bytes_of] or 0 for cell in row["tasks"].values()) for bytes_of in ("kv_bytes", "kv_bytes_fp16"))
        row["kv"] = 100 * size / exact if exact else None
    tell_apart(rows)
    return rows


# Of each kind of column: where the cell has its value and interval, and how both are printed.
KINDS = {"score": ("score_percent", "low_percent", "high_percent", ".1f"), "kl": ("kl", "kl_low", "kl_high", ".3g")}


def columns_of(cells):
    """-> {column: (kind, task, heading)}; running text has its KL before its top-1 agreement."""
    columns = {}
    for task, measure in sorted({(cell["task"], cell["measure"] or "") for cell in cells}):
        if measure == "top-1":
            columns["kl " + task] = ("kl", task, f"KL {task} [nats]")
        columns.setdefault(task, ("score", task, f"{'top-1 ' if measure == 'top-1' else ''}{task} [%]"))
    return columns


def value_of(row, column, columns):
    if column in ("name", "kv"):
        return row[column]
    kind, task, _ = columns[column]
    return row["tasks"][task][KINDS[kind][0]] if task in row["tasks"] else None


def ordered(rows, column, falling, columns):
    known = [row for row in rows if value_of(row, column, columns) is not None]
    known.sort(key=lambda row: value_of(row, column, columns), reverse=falling)
    return known + [row for row in rows if value_of(row, column, columns) is None]


def heading(column, text, sort, falling):
    down = falling if column != sort else not falling
    mark = "" if column != sort else " ▼" if falling else " ▲"
    return f'<th><a href="?_sort={quote(column)}&amp;_desc={int(down)}">{escape(text)}</a>{mark}</th>'


def score(cell, kind):
    value, low, high, digits = KINDS[kind]
    if not cell or cell[value] is None:
        return "<td></td>"
    interval = "" if cell[low] is None else f"[{cell[low]:{digits}}, {cell[high]:{digits}}], "
    return f'<td><a href="/cell/{quote(cell["key"])}">{cell[value]:{digits}}</a> <small>{interval}n {cell["n_ok"]}</small></td>'


def links_of(queries, base):
    return "".join(f'<li><a href="{base}/{quote(query)}">{escape(title)}</a></li>' for query, title in queries)


def figures_of(columns):
    """A picture for what the database has: KL of running text, scores of answers."""
    has_text = any(kind == "kl" for kind, _, _ in columns.values())
    has_answers = any(heading == f"{task} [%]" for _, task, heading in columns.values())
    names = ["pareto_kl"] * has_text + ["pareto"] * has_answers
    return "".join(f'<p class="wide"><img src="/figure/{name}.svg" alt="{name}: each compressor against its size"></p>' for name in names)


def options_note(shared):
    told = "; ".join(f"{plugin}: {', '.join(options)}" for plugin, options in sorted(shared.items()))
    return f"<p>Options: {escape(told)}</p>" if told else ""


def at_floor(cells):
    """{(model, task): score in %} of tasks on which full precision scores less than the experiment's min_baseline"""
    best = {}
    for cell in cells:
        if not cell["is_lossy"] and cell["measure"] != "top-1" and cell["score_percent"] is not None:
            key = cell["model"], cell["task"]
            best[key] = max(best.get(key, 0), cell["score_percent"])
    return {(cell["model"], cell["task"]): best[cell["model"], cell["task"]] for cell in cells
            if best.get((cell["model"], cell["task"]), 100) < (cell["min_baseline"] or 0)}


def page(name, base, cells, here, others, sort, falling):
    low = at_floor(cells)
    shown = [cell for cell in cells if not cell["suspect"] and (cell["model"], cell["task"]) not in low]
    columns, shared = columns_of(shown), shared_options(shown)
    sort = sort if sort in ["name", "kv", *columns] else "kv"
    heads = [heading("name", "compressor", sort, falling), heading("kv", "KV size [% of 16 bits]", sort, falling)]
    heads += [heading(column, text, sort, falling) for column, (_, _, text) in columns.items()]
    body = ""
    for row in ordered(rows_of(shown, shared), sort, falling, columns):
        size = "" if row["kv"] is None else f"{row['kv']:.1f}"
        body += f"<tr><td>{escape(row['name'])}</td><td>{size}</td>"
        body += "".join(score(row["tasks"].get(task), kind) for kind, task, _ in columns.values()) + "</tr>\n"
    n_suspect = sum(bool(cell["suspect"]) for cell in cells)
    left_out = f" {n_suspect} suspect cells (no evidence of compression) are left out." if n_suspect else ""
    left_out += "".join(f" Left out: {escape(task)} on {escape(model)}, where full precision scores {score:.1f} %."
                        for (model, task), score in sorted(low.items()))
    return page_of(name, f"""<p>Scores by task with their 95 % intervals, KL from full precision in nats per token, and measured KV-cache
size. Click a heading to sort, a value to see its samples.{left_out}</p>
<div class="wide"><table id="leaderboard"><thead><tr>{"".join(heads)}</tr></thead><tbody>
{body}</tbody></table></div>
{options_note(shared)}
{figures_of(columns)}
<h2>Queries</h2><ul>{links_of(here, base)}</ul>
<details><summary>Queries that have no result here, or need a cell's key (follow a link in the others)</summary>
<ul>{links_of(others, base)}</ul></details>
<p><a href="{base}">All tables, and SQL</a></p>""")


async def has_rows(datasette, name, sql):
    """Whether a query finds anything where its fields are left empty."""
    try:
        fields = dict.fromkeys(re.findall(r":(\w+)", sql), "")
        return bool((await datasette.execute(name, sql, fields, page_size=1, log_sql_errors=False)).rows)
    except (sqlite3.Error, QueryInterrupted):
        return False


async def leaderboard(datasette, request):
    name = database_name(datasette)
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
    """In query results, a cell's key links to its samples and sizes."""
    from markupsafe import Markup

    if table or column not in ("cell_key", "key") or not isinstance(value, str) or not value:
        return None
    base, key = datasette.urls.database(database), quote(value)
    return Markup(f'<a href="/cell/{key}">{escape(value[:12])}</a> '
                  f'<a href="{base}/bytes_by_kind?cell_key={key}">bytes</a>')
