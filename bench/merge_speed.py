"""How fast shards merge: databases made up for it, 10,000 cells of 100 samples in 50 shards, then `kvc merge`.

usage: merge_speed.py KVC [SHARDS] [CELLS] [SAMPLES]
Each sample has a generation of some 300 characters, two scores and four rows of bytes; prompts repeat across cells. Prints
samples a second of wall clock: of the first merge, of the same again, and of a plain `INSERT ... SELECT` of the tables into
an empty database, which is the bound that the machine and SQLite set.
"""
import hashlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?1) "
TABLES = ["text", "cell", "experiment_cell", "sample", "score", "kv_bytes"]


def schema():
    with open(os.path.join(ROOT, "results", "schema.sql"), encoding="utf-8") as file:
        return file.read()


def row_of(db, table, values):
    """Of each column an SQL expression: what `values` says, else an empty value of its type."""
    empty = {"TEXT": "''", "REAL": "0.5", "INTEGER": "0"}
    return ", ".join(values.get(name, empty[kind]) for _, name, kind, *_ in db.execute(f"PRAGMA table_info({table})"))


def fill(path, cells, n_samples):
    db = sqlite3.connect(path)
    db.executescript(schema())
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = OFF")
    prompts = [hashlib.sha256(b"prompt %d" % i).hexdigest() for i in range(n_samples)]
    db.executemany("INSERT INTO text VALUES (?, ?)", [(sha, "Q: " + 20 * sha) for sha in prompts])
    db.execute("CREATE TEMP TABLE prompt (i INTEGER PRIMARY KEY, sha)")
    db.executemany("INSERT INTO prompt VALUES (?, ?)", enumerate(prompts))
    for cell in cells:
        key = hashlib.sha256(b"cell %d" % cell).hexdigest()
        values = {"key": "?1", "model": "'m'", "task": "'t'", "plugin": "'p'", "n_samples": "?2", "kind": "'eval'",
                  "scoring_json": "'{}'"}
        db.execute(f"INSERT INTO cell SELECT {row_of(db, 'cell', values)}", (key, n_samples))
        db.execute("INSERT INTO experiment_cell VALUES ('e', ?, '', ?)", (key, cell))
        values = {"cell_key": "?2", "sample": "i", "status": "'ok'", "prompt_sha256": "sha", "kv_bytes": "1000 + i",
                  "generation": "printf('%s answers %d; %s', sha, i * ?3, hex(zeroblob(100)))", "gold": "i",
                  "stop_reason": "'stop'", "token_ids_json": "'[1,2,3]'", "peak_bytes": "NULL"}
        db.execute(f"INSERT INTO sample SELECT {row_of(db, 'sample', values)} FROM prompt WHERE i < ?1", (n_samples, key, cell))
        db.execute(NUMBERS + "INSERT INTO score SELECT ?2, i, e.column1, e.column2, i, i % 2 FROM n,"
                   " (VALUES ('first', 0), ('second', 1)) AS e", (n_samples, key))
        db.execute(NUMBERS + "INSERT INTO kv_bytes SELECT ?2, i, l.column1, 0, t.column1, 'codes', 100 FROM n,"
                   " (VALUES (0), (1)) AS l, (VALUES ('k'), ('v')) AS t", (n_samples, key))
    db.commit()
    db.close()


def timed(what, n, work):
    start = time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    print(f"{what}: {seconds:.2f} s, {n / seconds:,.0f} samples a second", flush=True)


def merge(program, out, shards):
    done = subprocess.run([program, "merge", out, *shards], stdout=subprocess.PIPE, check=True, text=True,
                          env={**os.environ, "KVC_ROOT": ROOT})
    print("  " + done.stdout.splitlines()[-1].split("/")[-1])


def insert_all(out, shards):
    db = sqlite3.connect(out, isolation_level=None)
    db.executescript(schema())
    db.execute("PRAGMA journal_mode = WAL")
    for shard in shards:
        db.execute("ATTACH ? AS shard", (shard,))
        db.execute("BEGIN")
        for table in TABLES:
            db.execute(f"INSERT INTO main.{table} SELECT * FROM shard.{table} WHERE true ON CONFLICT DO NOTHING")
        db.execute("COMMIT")
        db.execute("DETACH shard")


def main():
    program = sys.argv[1]
    n_shards, n_cells, n_samples = [int(a) for a in sys.argv[2:]] + [50, 10_000, 100][len(sys.argv) - 2:]
    with tempfile.TemporaryDirectory() as folder:
        shards = [os.path.join(folder, f"shard-{i:03}.sqlite") for i in range(n_shards)]
        for i, shard in enumerate(shards):
            fill(shard, range(i, n_cells, n_shards), n_samples)
        total = n_cells * n_samples
        size = sum(map(os.path.getsize, shards)) / 1e6
        print(f"{n_cells:,} cells of {n_samples} samples in {n_shards} shards, {size:,.0f} MB", flush=True)
        out = os.path.join(folder, "out.sqlite")
        timed("merge", total, lambda: merge(program, out, shards))
        timed("the same again", total, lambda: merge(program, out, shards))
        timed("INSERT ... SELECT alone", total, lambda: insert_all(os.path.join(folder, "plain.sqlite"), shards))


if __name__ == "__main__":
    main()
