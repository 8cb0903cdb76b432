#!/usr/bin/env python3
"""Draws figures from a database that is made here by SQL alone, and reads the pictures: the SVG as XML.

Usage: figure_pictures.py PROGRAM. Exit code 77: gnuplot is missing.
"""
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = sys.argv[1]
TEXT = "{http://www.w3.org/2000/svg}text"
NASTY = "it's <b> & \"`touch TOUCHED`\" _{x}^2 \\n é %d"


def add_cell(db, experiment, position, key, label, plugin, options="{}", kind="eval", lossy=1, task="demo/a"):
    db.execute("INSERT INTO cell (key, model, task, model_json, task_json, plugin, plugin_sha256, options_json, "
               "options_label, generation_json, bits, n_samples, is_lossy, is_simulated, kind) "
               "VALUES (?, 'm', ?, '{}', '{}', ?, '', ?, '', '{}', 2, 2, ?, 0, ?)",
               (key, task, plugin, options, lossy, kind))
    db.execute("INSERT INTO experiment_cell (experiment, cell_key, label, position) VALUES (?, ?, ?, ?)",
               (experiment, key, label, position))


def add_sample(db, key, sample, score, kv_bytes, kinds):
    row = {"cell_key": key, "sample": sample, "status": "ok", "prompt_sha256": "t", "stop_reason": "stop",
           "token_ids_json": "[]", "kv_bytes": kv_bytes, "kv_bytes_fp16": 1000, "k_error": 0.001, "v_error": 0.001,
           "n_prompt_tokens": 10, "n_prompt_tokens_before": 10, "n_new_tokens": 5, "n_encoded_tokens": 10}
    row |= {name: "" for name in ("error", "generation", "gold")}
    row |= {name: 0 for name in ("n_reused_tokens", "peak_weights_bytes", "peak_kv_bytes", "peak_workspace_bytes")}
    row |= {name: 1 for name in ("prefill_seconds", "encode_seconds", "attend_seconds", "other_seconds")}
    db.execute(f"INSERT INTO sample ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", tuple(row.values()))
    db.execute("INSERT INTO score VALUES (?, ?, 'e', 0, 'x', ?)", (key, sample, score))
    for kind, n in kinds.items():
        db.execute("INSERT INTO kv_bytes VALUES (?, ?, 0, 0, 'k', ?, ?)", (key, sample, kind, n))


def make_database(path):
    db = sqlite3.connect(path)
    db.executescript((ROOT / "results/schema.sql").read_text())
    db.execute("INSERT INTO text VALUES ('t', 'prompt')")
    for i, (label, plugin) in enumerate([(NASTY, "kivi"), ("GEAR 2 bits", "gear")]):
        for experiment in ("gear_fig6_demo", "gear_fig4c_demo"):
            key = f"{experiment}{i}"
            add_cell(db, experiment, i, key, label, plugin)
            for sample in range(2):
                add_sample(db, key, sample, sample, 200 + 50 * i, {"codes": 150, "scales": 50, "low_rank": 50 * i})
        key = f"tada{i}"
        add_cell(db, "tada_fig2_demo", i, key, label, plugin, kind="probe")
        add_cell(db, "decoquant_fig1_demo", i, "deco" + str(i), label, plugin, kind="probe", lossy=i)
        for layer in range(3):
            for tensor in ("k", "v"):
                db.execute("INSERT INTO probe VALUES (?, 0, 'abs_fro', ?, -1, ?, -1, ?)", (key, layer, tensor, 1 + layer + i))
        add_cell(db, "gear_6_demo", i, f"bench{i}", label, plugin, kind="bench")
        for batch in (1, 4):
            for repeat in range(3):
                for phase, part, seconds in (("encode", "all", 1), ("encode", "quantize", 0.5), ("attend", "all", 2),
                                             ("attend", "low_rank", 0.5), ("prefill", "all", 1), ("total", "all", 4)):
                    db.execute("INSERT INTO timing VALUES (?, ?, ?, ?, 8, 6, ?, ?)",
                               (f"bench{i}", repeat, phase, part, batch, seconds + 0.1 * repeat))
                db.execute("INSERT INTO memory VALUES (?, 8, 6, ?, ?, 'peak', ?)", (f"bench{i}", batch, repeat, batch << 30))
    for measure, value in (("min", -4), ("q1", -1), ("median", 0), ("q3", 1), ("max", 4)):
        for tensor in ("k", "k_t_l", "v"):
            db.execute("INSERT INTO probe VALUES ('deco1', 0, ?, 0, -1, ?, -1, ?)", (measure, tensor, value))
    add_cell(db, "qjl_fig2_demo", 0, "qjl", "exact", "full", kind="probe", lossy=0)
    for layer in range(2):
        for channel in range(8):
            db.execute("INSERT INTO probe VALUES ('qjl', 0, 'channel_mean_abs', ?, -1, 'k', ?, ?)",
                       (layer, channel, 2.0 ** ((channel * 3) % 8)))
    db.commit()


def draw(name, db, picture):
    done = subprocess.run([PROGRAM, "figure", name, "--db", str(db), "-o", str(picture)], capture_output=True, text=True,
                          env={**os.environ, "KVC_ROOT": str(ROOT)})
    return done.returncode, done.stdout + done.stderr


def texts_of(svg):
    return ["".join(element.itertext()).strip() for element in xml.parse(svg).iter(TEXT)]


def main():
    if not shutil.which("gnuplot"):
        print("gnuplot is missing")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        db = folder / "made.sqlite"
        make_database(db)
        expected = {  # what must stand in the picture, word for word
            "gear:6": ["GEAR 2 bits", NASTY, "codes", "scales and zeros", "low rank", "fraction of the size at 16 bits [%]"],
            "gear:4c": ["GEAR", NASTY, "demo/a", "KV size [%]", "accuracy [%]"],
            "tada:2": ["GEAR 2 bits", NASTY, "K", "V", "layer"],
            "gear:3a": ["quantization", "low rank", "other", "fraction of the time [%]"],
            "gear:3b": ["GEAR 2 bits", "peak memory [GiB]"],
            "gear:3c": ["GEAR 2 bits", "throughput [tokens/s]"],
            "decoquant:1": ["matrix", "T_L", "value"],
            "qjl:2": ["layer", "mean magnitude", "channel, sorted by its mean magnitude"],
        }
        for figure, words in expected.items():
            picture = folder / (figure.replace(":", "_") + ".svg")
            code, said = draw(figure, db, picture)
            assert code == 0, (figure, said)
            texts = texts_of(picture)
            for word in words:
                assert word in texts, (figure, word, texts)
        assert not (folder / "TOUCHED").exists() and not pathlib.Path("TOUCHED").exists()
        # Three repeats took 4.0 + 4.1 + 4.2 s, of which quantization 0.5 + 0.6 + 0.7 s, and low rank as much.
        bars = (folder / "gear_3a.dat").read_text().split("\n\n\n")
        shares = [float(line.split('"')[-1].split()[0]) for block in bars for line in block.splitlines()[1:2]]
        assert [round(share, 6) for share in shares] == [round(100 * s / 12.3, 6) for s in (1.8, 1.8, 8.7)], shares
        for ending, magic in (("pdf", b"%PDF-"), ("png", b"\x89PNG")):
            code, said = draw("gear:6", db, folder / f"again.{ending}")
            assert code == 0 and (folder / f"again.{ending}").read_bytes().startswith(magic), said
        code, said = draw("qjl:5", db, folder / "none.svg")  # no cell of it is there
        assert code == 2 and said.startswith("kvc: figure qjl:5: '") and "./kvc run configs/papers/demo/qjl_fig5.yaml" in said
        assert said.count("\n") == 1 and not (folder / "none.svg").exists(), said
    print(f"{len(expected)} figures drawn and read")
    return 0


sys.exit(main())
