"""Encoding speed: ours against the `tokenizers` package, on one thread, in turns within one run.

usage: tokenizer.py PROGRAM [REPEATS]; PROGRAM is build/bin/bench_tokenizer, tokenizers and texts come from $KVC_DATA.
Prints MB/s of CPU time, median and best of the repeats. "fast" is the package's encode_batch_fast (without offsets).
"""
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.update(TOKENIZERS_PARALLELISM="false", RAYON_NUM_THREADS="1")
from tokenizers import Tokenizer  # noqa: E402  after the settings that it reads


def lines_of(pattern, fields):
    for path in sorted(glob.glob(os.path.join(os.environ["KVC_DATA"], pattern))):
        for line in open(path, encoding="utf-8"):
            row = json.loads(line)
            yield "\n".join(str(row[f]) for f in fields if row.get(f))


def text_sets():
    yield "GSM8K", list(lines_of("gsm8k/test.jsonl", ["question", "answer"])) + list(lines_of("gsm8k/train.jsonl", ["question", "answer"]))[:2000]
    yield "LongBench en", list(lines_of("longbench_data/multi_news.jsonl", ["context"]))
    yield "LongBench zh", list(lines_of("longbench_data/multifieldqa_zh.jsonl", ["context"]))[:60]
    yield "LongBench code", list(lines_of("longbench_mini/lcc.jsonl", ["prompt"])) + list(lines_of("longbench_mini/repobench-p.jsonl", ["prompt"]))


class Ours:
    def __init__(self, program, folder, texts):
        self.file = tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8")
        self.file.writelines(json.dumps(text) + "\n" for text in texts)
        self.file.flush()
        self.process = subprocess.Popen([program, folder, self.file.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return answer["seconds"], answer["ids"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.file.close()


def theirs(encode, texts):
    start = time.process_time()
    encodings = encode(texts)
    seconds = time.process_time() - start
    return seconds, sum(len(e.ids) for e in encodings)


def measure(program, folder, texts, repeats):
    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    ours = Ours(program, folder, texts)
    runs = {"ours": ours.run, "tokenizers": lambda: theirs(tokenizer.encode_batch, texts),
            "fast": lambda: theirs(tokenizer.encode_batch_fast, texts)}
    seconds = {name: [] for name in runs}
    ids = set()
    for repeat in range(repeats + 1):  # the first warms up
        for name, run in runs.items():
            one, n_ids = run()
            ids.add(n_ids)
            if repeat:
                seconds[name].append(one)
    ours.close()
    assert len(ids) == 1, f"{folder}: the numbers of ids differ: {ids}"
    return seconds


def main():
    program, repeats = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 7
    sets = list(text_sets())
    print("| tokenizer | texts | MB | ours, median (best) | tokenizers | tokenizers fast | ours / fast, medians |")
    print("|---|---|--:|--:|--:|--:|--:|")
    for path in sorted(glob.glob(os.path.join(os.environ["KVC_DATA"], "tokenizers", "*", "tokenizer.json"))):
        folder = os.path.dirname(path)
        for name, texts in sets:
            mb = sum(len(t.encode()) for t in texts) / 1e6
            seconds = measure(program, folder, texts, repeats)
            cells = [f"{mb / statistics.median(s):.1f} ({mb / min(s):.1f})" for s in seconds.values()]
            ratio = statistics.median(seconds["fast"]) / statistics.median(seconds["ours"])
            print(f"| {os.path.basename(folder)} | {name} | {mb:.2f} | {' | '.join(cells)} | {ratio:.1f} |", flush=True)


if __name__ == "__main__":
    main()
