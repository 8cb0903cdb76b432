"""Compressors in Python: the examples equal the plugins of their names, and what is wrong with one costs its own rows.

usage: compressors_check.py PROGRAM
"""
import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile

PROGRAM = sys.argv[1]
SOURCES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
try:
    import numpy  # noqa: F401
    import torch  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

HEAD = """import {imports}
import kvc

class Bad(kvc.Compressor):
    "of a test"
    def append(self, k, v, q):
        {append}
    def attended(self):
        return {attended}
"""
KEEP = ("self.k = k.half().clone() if self.length == 0 else torch.cat([self.k, k.half()], 1); "
        "self.v = v.half().clone() if self.length == 0 else torch.cat([self.v, v.half()], 1)")
HELD = "self.k.float(), self.v.float()"
ROUNDED = ("self.k = (k if self.length == 0 else torch.cat([self.k.float(), k], 1)).mul(2).round().clamp(-128, 127).to(torch.int8); "
           "self.v = (v if self.length == 0 else torch.cat([self.v.float(), v], 1)).mul(2).round().clamp(-128, 127).to(torch.int8)")

# What it does, and a part of what is said of its samples.
BAD = {
    "raises": (dict(append="raise KeyError('lost')"), "KeyError: 'lost' (raises.py:"),
    "exits": (dict(append="import os; os._exit(3)"), "ended with exit code 3"),
    "quits": (dict(append="raise SystemExit(4)"), "SystemExit: 4"),
    "hangs": (dict(append="while True: pass"), "s at one call"),
    "wrong_shape": (dict(append=KEEP, attended="self.k.float()[:, 1:], self.v.float()"), "attended() gave k of shape"),
    "wrong_rank": (dict(append=KEEP, attended="self.k.float()[0], self.v.float()"), "attended() gave k of shape"),
    "no_arrays": (dict(append=KEEP, attended="None"), "attended() gave NoneType"),
    "keeps_input": (dict(append="self.k, self.v = k, v"), "copy what you keep"),
    "writes_a_file": (dict(append="open('/tmp/kvc-test-kept', 'wb')"), "because it called openat"),
    "forks": (dict(append="import os; os.fork()"), "because it called"),
    "opens_a_socket": (dict(append="import socket; socket.socket()"), "because it called socket"),
    "reads_elsewhere": (dict(append="open('/etc/passwd').read()"), "Permission denied"),
    "global_list": (dict(append="KEPT.append((k.clone(), v.clone())); " + ROUNDED + "\n\nKEPT = []\nclass _Later:\n    x = 0"),
                    None),
    "held_too_little": (dict(append=KEEP, more="    def held(self):\n        return {'k': self.k}\n"),
                        "cannot give less than"),
}


def run(folder, text, env):
    path = os.path.join(folder, "x.yaml")
    with open(path, "w") as file:
        file.write(text)
    done = subprocess.run([PROGRAM, "run", path, "--db", os.path.join(folder, "r.sqlite")], capture_output=True, text=True, env=env)
    assert "left running" not in done.stderr, done.stderr
    return done


def sha256_of(file):
    with open(file, "rb") as opened:
        return hashlib.sha256(opened.read()).hexdigest()


def rows(folder, columns):
    database = sqlite3.connect(os.path.join(folder, "r.sqlite"))
    return database.execute(f"SELECT plugin, task, sample, {columns} FROM sample JOIN cell ON key = cell_key").fetchall()


def check_examples(env):
    examples = os.path.join(SOURCES, "python", "examples")
    options = {"token_group": {"bits": 2}, "kivi": {"group_size": 32, "recent": 64}, "snapkv": {"capacity": 64}}
    both = [{name: chosen} for name, chosen in options.items()]
    both += [{os.path.join(examples, name + ".py"): chosen} for name, chosen in options.items()]
    with tempfile.TemporaryDirectory() as folder:
        text = json.dumps({"name": "examples", "model": "models/demo", "tasks": ["demo/arithmetic", "demo/lookup"], "limit": 3,
                           "sizes": [], "compressors": both})
        done = run(folder, text, env)
        assert done.returncode == 0, done.stderr
        found = {row[:3]: row[3:] for row in rows(folder, "kv_bytes, token_ids_json, coalesce(k_error, 0), coalesce(v_error, 0)")}
        n_compared = 0
        for (plugin, task, sample), (n_bytes, ids, *errors) in found.items():
            if plugin.endswith(".py"):
                continue
            other_bytes, other_ids, *other_errors = found[plugin + ".py", task, sample]
            assert (n_bytes, ids) == (other_bytes, other_ids), (plugin, task, sample, n_bytes, other_bytes)
            assert all(abs(a - b) <= 1e-6 * max(a, 1e-9) for a, b in zip(errors, other_errors)), (plugin, errors, other_errors)
            n_compared += 1
        assert n_compared == 18, n_compared
        # Another torch is another cell, and another kvc package.
        said = subprocess.run([env["KVC_PYTHON"], "-c", "import sys, torch; print(f'Python {sys.version.split()[0]}, torch {torch.__version__}')"],
                              capture_output=True, text=True, check=True).stdout.strip()
        for name in ("__init__.py", "compressor.py", "host.py"):
            said += f", kvc/{name} {sha256_of(os.path.join(SOURCES, 'python', 'kvc', name))}"
        file = os.path.join(examples, "kivi.py")
        expected = hashlib.sha256(f"{sha256_of(file)}\n{said}".encode()).hexdigest()
        database = sqlite3.connect(os.path.join(folder, "r.sqlite"))
        stored = {row[0] for row in database.execute("SELECT plugin_sha256 FROM cell WHERE plugin = 'kivi.py'")}
        assert stored == {expected}, (stored, expected, said)
    print("examples equal their plugins in", n_compared, "samples")


def check_imported_file(env):
    """A file that the compressor imports from its folder is part of what computes its cells."""
    with tempfile.TemporaryDirectory() as folder:
        text = json.dumps({"name": "x", "model": "models/demo", "tasks": ["demo/arithmetic"], "limit": 1, "sizes": [],
                           "compressors": [os.path.join(folder, "mine.py")]})
        with open(os.path.join(SOURCES, "python", "examples", "kivi.py")) as example, \
                open(os.path.join(folder, "mine.py"), "w") as mine:
            mine.write("import helper\n" + example.read())
        for n_cells, helper in ((1, "A = 1\n"), (1, "A = 1\n"), (2, "A = 22\n")):
            with open(os.path.join(folder, "helper.py"), "w") as file:
                file.write(helper)
            done = run(folder, text, env)
            assert done.returncode == 0, done.stderr
            stored = sqlite3.connect(os.path.join(folder, "r.sqlite")).execute("SELECT count(*) FROM cell").fetchone()[0]
            assert stored == n_cells, (stored, n_cells, helper)


ATTENDS = """    def attend(self, q):
        k, v = self.attended()
        group = q.shape[0] // k.shape[0]
        last = torch.arange(self.length - q.shape[1], self.length)[:, None]
        scores = (q @ k.repeat_interleave(group, 0).transpose(1, 2) * self.info.attention_scale)
        return scores.masked_fill(torch.arange(self.length) > last, -torch.inf).softmax(-1) @ v.repeat_interleave(group, 0)
"""


def check_own_attention(env):
    """A class with attend() and the same without it."""
    with tempfile.TemporaryDirectory() as folder:
        for name, more in (("plain", ""), ("attends", ATTENDS)):
            with open(os.path.join(folder, name + ".py"), "w") as file:
                file.write(HEAD.format(imports="torch", append=KEEP, attended=HELD) + more)
        text = json.dumps({"name": "attention", "model": "models/demo", "tasks": ["demo/arithmetic"], "limit": 2, "sizes": [],
                           "compressors": ["full", "plain.py", "attends.py"]})
        done = run(folder, text, env)
        said = {}
        for plugin, _, _, status, ids in rows(folder, "status, token_ids_json"):
            said.setdefault(plugin, []).append((status, ids))
        assert said["plain.py"] == said["attends.py"] and said["plain.py"][0][0] == "ok", (said, done.stderr)
    print("attention of a class's own is used")


def check_bad(env):
    with tempfile.TemporaryDirectory() as folder:
        for name, (parts, _) in BAD.items():
            text = HEAD.format(imports="torch", append=parts["append"], attended=parts.get("attended", HELD)) + parts.get("more", "")
            with open(os.path.join(folder, name + ".py"), "w") as file:
                file.write(text)
        text = json.dumps({"name": "bad", "model": "models/demo", "tasks": ["demo/lookup"], "limit": 2, "sizes": [], "patience": 10,
                           "compressors": ["full", "kivi", *(name + ".py" for name in BAD if BAD[name][1])]})
        run(folder, text, env)
        said = {}
        for plugin, _, _, status, error in rows(folder, "status, coalesce(error, '')"):
            said.setdefault(plugin, []).append((status, error))
        for plugin in ("full", "kivi"):
            assert [status for status, _ in said[plugin]] == ["ok", "ok"], said[plugin]
        for name, (_, part) in BAD.items():
            if part is None:
                continue
            failures = said[name + ".py"]
            assert all(status == "failed" for status, _ in failures), (name, failures)
            assert any(part in error for _, error in failures), (name, part, failures)
        check_found_by_verify(folder, "global_list.py", env)
    print(len(BAD), "bad compressors cost their own rows")


def check_found_by_verify(folder, name, env):
    """Exact K and V in a list of the module, next to 8-bit codes: the kernel counts them."""
    done = subprocess.run([PROGRAM, "plugin", "verify", os.path.join(folder, name), "--check", "process_grows_by_the_footprint"],
                          capture_output=True, text=True, env=env)
    assert done.returncode == 5 and "the process has grown by" in done.stderr, done.stderr + done.stdout


def main():
    env = dict(os.environ, KVC_PYTHON=sys.executable)
    check_examples(env)
    check_own_attention(env)
    check_imported_file(env)
    check_bad(env)


main()
