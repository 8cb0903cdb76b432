"""Pages of `kvc serve` between its first page and a sample: a cell's samples, one sample, and the figures."""

import asyncio
import os
import sys
import tempfile
from html import escape
from urllib.parse import quote

from datasette import NotFound, Response, hookimpl

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from page_parts import database_name, page_of  # noqa: E402

FIGURES = ("pareto", "pareto_kl", "bars", "lines", "kl_by_position")
HOME = '<a href="/">all compressors</a>'
CELL = """SELECT c.key, c.model, c.task, c.plugin, c.options, ifnull((SELECT max(label) FROM experiment_cell WHERE cell_key = c.key), '')
  AS label, c.n_ok, c.n_failed, 100.0 * c.kv_bytes / c.kv_bytes_fp16 AS kv, c.suspect FROM v_cell AS c WHERE c.key = ?"""
SAMPLES = """SELECT s.sample, s.status, s.error, x.extractor, x.answer, x.value, s.gold, substr(s.generation, 1, 200) AS beginning,
  s.n_prompt_tokens, s.n_new_tokens, 100.0 * s.kv_bytes / s.kv_bytes_fp16 AS kv
  FROM sample AS s LEFT JOIN score AS x ON x.cell_key = s.cell_key AND x.sample = s.sample AND x.position = 0
  WHERE s.cell_key = ? ORDER BY s.sample"""
SAMPLE = """SELECT s.*, t.body AS prompt FROM sample AS s LEFT JOIN text AS t ON t.sha256 = s.prompt_sha256
  WHERE s.cell_key = ? AND s.sample = ?"""
SCORES = "SELECT extractor, answer, value FROM score WHERE cell_key = ? AND sample = ? ORDER BY position"
FACTS = ("status", "error", "stop_reason", "n_prompt_tokens", "n_new_tokens", "kv_bytes", "kv_bytes_fp16", "n_encoded_tokens",
         "k_error", "v_error", "prefill_seconds", "encode_seconds", "attend_seconds", "other_seconds")


def database_of(datasette):
    name = database_name(datasette)
    return name, datasette.get_database(name)


def shown(value):
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else escape(str(value))


def title_of(cell):
    return f"{cell['label'] or (cell['plugin'] + ' ' + cell['options']).strip()} on {cell['task']}"


async def cell_of(database, key):
    row = (await database.execute(CELL, [key])).first()
    if row is None:
        raise NotFound("no such cell")
    return row


def score_text(row):
    if row["status"] != "ok":
        return f"failed: {row['error']}"
    return "" if row["value"] is None else f"{100 * row['value']:.1f}"


async def cell_page(datasette, request):
    name, database = database_of(datasette)
    cell = await cell_of(database, request.url_vars["key"])
    body = ""
    for row in (await database.execute(SAMPLES, [cell["key"]])).rows:
        link = f"/cell/{quote(cell['key'])}/{row['sample']}"
        body += (f'<tr><td><a href="{link}">sample {row["sample"]}</a></td><td>{escape(score_text(row))}</td>'
                 f'<td class="text">{shown(row["answer"])}</td><td class="text">{shown(row["gold"])}</td>'
                 f'<td class="text">{shown(row["beginning"])}</td><td>{row["n_prompt_tokens"]}</td><td>{row["n_new_tokens"]}</td>'
                 f"<td>{shown(row['kv'])}</td></tr>\n")
    suspect = f' <b>Suspect: {escape(cell["suspect"])}.</b>' if cell["suspect"] else ""
    key = quote(cell["key"])
    return Response.html(page_of(title_of(cell), f"""<p>{escape(cell['model'])}; {cell['n_ok']} samples, {cell['n_failed']} failed;
KV size {shown(cell['kv'])} % of 16 bits.{suspect}
<a href="/{quote(name)}/bytes_by_kind?cell_key={key}">Bytes by kind</a>,
<a href="/{quote(name)}/sample?cell_key={key}">all columns</a></p>
<div class="wide"><table id="samples"><thead><tr><th>sample</th><th>score [%]</th><th class="text">answer</th><th class="text">gold</th>
<th class="text">generation</th><th>prompt [tokens]</th><th>new [tokens]</th><th>KV [%]</th></tr></thead><tbody>
{body}</tbody></table></div>""", HOME))


async def sample_page(datasette, request):
    _, database = database_of(datasette)
    cell = await cell_of(database, request.url_vars["key"])
    number = [cell["key"], int(request.url_vars["sample"])]
    row = (await database.execute(SAMPLE, number)).first()
    if row is None:
        raise NotFound("no such sample")
    scores = "".join(f"<tr><td>{shown(score['extractor'])}</td><td>{shown(score['value'])}</td>"
                     f'<td class="text">{shown(score["answer"])}</td></tr>' for score in (await database.execute(SCORES, number)).rows)
    facts = "".join(f"<tr><td>{fact}</td><td>{shown(row[fact])}</td></tr>" for fact in FACTS)
    gold = f"<h2>Gold</h2><pre>{escape(row['gold'])}</pre>" if row["gold"] else ""
    above = f'{HOME} &rsaquo; <a href="/cell/{quote(cell["key"])}">{escape(title_of(cell))}</a>'
    return Response.html(page_of(f"{title_of(cell)}, sample {number[1]}", f"""
<h2>Generation</h2><pre>{escape(row['generation'])}</pre>{gold}
<h2>Scores</h2><div class="wide"><table><thead><tr><th>extractor</th><th>value</th><th class="text">answer</th></tr></thead><tbody>{scores}</tbody></table></div>
<h2>Measured</h2><div class="wide"><table><tbody>{facts}</tbody></table></div>
<h2>Prompt</h2><pre>{escape(row['prompt'] or '')}</pre>""", above))


async def figure(request):
    """Drawn by the program, each time: the database may have grown."""
    name = request.url_vars["name"]
    if name not in FIGURES:
        raise NotFound("no such figure")
    with tempfile.TemporaryDirectory() as folder:
        picture = os.path.join(folder, name + ".svg")
        done = await asyncio.create_subprocess_exec(
            os.environ["KVC_PROGRAM"], "figure", name, "--db", os.environ["KVC_SERVED"], "-o", picture,
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE)
        _, said = await done.communicate()
        if done.returncode != 0:
            raise NotFound(said.decode(errors="replace"))
        with open(picture) as file:
            return Response(file.read(), content_type="image/svg+xml; charset=utf-8")


@hookimpl
def register_routes():
    return [(r"^/cell/(?P<key>[^/]+)$", cell_page), (r"^/cell/(?P<key>[^/]+)/(?P<sample>[0-9]+)$", sample_page),
            (r"^/figure/(?P<name>[a-z_]+)\.svg$", figure)]
