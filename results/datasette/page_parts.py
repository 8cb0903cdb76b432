"""What the pages of `kvc serve` have in common."""

from html import escape

STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1c2024; --soft: #5c6670; --line: #d8dde2; --band: #f3f5f7; --link: #0a58ca; }
@media (prefers-color-scheme: dark) { :root { --back: #14171a; --text: #e4e7ea; --soft: #9aa4ae; --line: #353c43; --band: #1d2226;
  --link: #7db2ff; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 0 20px 40px; max-width: 1680px; color: var(--text);
  background: var(--back); }
a { color: var(--link); text-decoration: none; } a:hover { text-decoration: underline; }
.wide { overflow-x: auto; background: linear-gradient(to right, var(--back) 30%, transparent) left / 40px 100% no-repeat local,
  linear-gradient(to left, var(--back) 30%, transparent) right / 40px 100% no-repeat local,
  linear-gradient(to right, #0003, transparent) left / 14px 100% no-repeat scroll,
  linear-gradient(to left, #0003, transparent) right / 14px 100% no-repeat scroll; }  /* a shadow where more is hidden */
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 12px; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 130px; position: sticky; left: 0;
  background: var(--back); }
.text { text-align: left; white-space: normal; min-width: 220px; overflow-wrap: anywhere; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; padding: 10px; background: var(--band); font: 12.5px/1.45 ui-monospace, monospace; }
img { background: #fff; max-width: none; }
small, .soft { color: var(--soft); } ul { columns: 3 300px; padding-left: 18px; }
"""


def database_name(datasette):
    return next(name for name in datasette.databases if name != "_internal")


def page_of(title, body, above=""):
    """above: links to the pages that lead here."""
    return f"""<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>kvc: {escape(title)}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head><body>
<p>{above}</p><h1>{escape(title)}</h1>
{body}</body></html>"""
