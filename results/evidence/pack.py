#!/usr/bin/env python3
"""Makes a shard for results/evidence: pack.py DATABASE NAME [FIRST]

The database's rows without the texts that models read (their licenses are not ours; hashes and token counts stay), packed
as results/evidence/NAME.sqlite.xz; with FIRST without the samples before that number, which another shard has. Prints what
results/evidence/README.md says of a shard. A shard is never packed twice.
"""
import hashlib
import lzma
import os
import sqlite3
import sys
import tempfile


def main(database, name, first=0):
    out = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".sqlite.xz")
    if os.path.exists(out):
        sys.exit(f"{out} exists: shards do not change, take another name")
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "copy.sqlite")
        source = sqlite3.connect(f"file:{os.path.abspath(database)}?mode=ro", uri=True)
        source.execute("VACUUM INTO ?", (copy,))
        shard = sqlite3.connect(copy, isolation_level=None)
        shard.execute("PRAGMA foreign_keys = ON")
        shard.execute("DELETE FROM sample WHERE sample < ?", (int(first),))
        shard.execute("UPDATE text SET body = ''")
        shard.execute("UPDATE token_likelihood SET tokens_json = '[]'")
        shard.execute("PRAGMA journal_mode = DELETE")
        shard.execute("VACUUM")
        counts = shard.execute("SELECT count(*), ifnull(sum(status <> 'ok'), 0) FROM sample").fetchone()
        models = [row[0] for row in shard.execute("SELECT DISTINCT model FROM cell ORDER BY 1")]
        shard.close()
        with open(copy, "rb") as file:
            packed = lzma.compress(file.read(), preset=9 | lzma.PRESET_EXTREME)
    with open(out, "wb") as file:
        file.write(packed)
    print(f"| {name}.sqlite.xz | {', '.join(models)} | {counts[0]} ({counts[1]} failed) | {len(packed) / 1e6:.1f} MB |"
          f" {hashlib.sha256(packed).hexdigest()[:16]} |")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__.split("\n")[0])
    main(*sys.argv[1:])
