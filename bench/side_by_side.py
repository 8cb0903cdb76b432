"""Prefill, decoding and memory of one checkpoint in kvc and in what a user would pick instead, on prompts of random
tokens: one process a cell, interleaved, wall clock and processor time.

usage: side_by_side.py PROGRAM MODEL.gguf [--prompt 1020] [--new 64] [--batch 1,8] [--threads 1,2] [--repeats 3]
                       [--cells 'NAME;...'] [--base NAME] [-o FILE.json]
kvc: bench of the file, weights in a dtype, cache COMPRESSOR. transformers: the same file dequantized, its
DynamicCache or QuantizedCache. llama.cpp (package xllamacpp): the file as it is, K and V as f16, q8_0 or q4_0.
Times are medians and minima over the repeats, of one batch; a peak is resident memory of the largest process.
"""
import argparse
import json
import os
import random
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time

CELLS = ["kvc fp32 full", "kvc fp32 kivi: {bits: 4}", "kvc bf16 full", "transformers fp32 dynamic",
         "transformers bf16 dynamic", "transformers fp32 quanto", "transformers fp32 hqq", "llama.cpp f16",
         "llama.cpp q8_0", "llama.cpp q4_0"]


def processor_seconds(who):
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def random_prompts(work, n_vocabulary):
    rng = random.Random(7)
    return [[rng.randrange(n_vocabulary) for _ in range(work["prompt"])] for _ in range(work["batch"])]


def run_kvc(work):
    _, dtype, compressor = work["cell"].split(" ", 2)
    with tempfile.TemporaryDirectory() as folder:
        experiment, database = os.path.join(folder, "b.yaml"), os.path.join(folder, "b.sqlite")
        with open(experiment, "w") as file:
            file.write(f"name: b\nkind: bench\nbench:\n  model: {work['model']}\n  prompt_tokens: {work['prompt']}\n"
                       f"  new_tokens: {work['new']}\n  batch: {work['batch']}\n  repeats: 1\n  warmups: 0\n"
                       f"dtype: {dtype}\nthreads: {work['threads']}\ncompressors:\n  - {compressor}\n")
        subprocess.run([work["program"], "run", experiment, "--db", database], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.PIPE)
        phases = dict(sqlite3.connect(database).execute("SELECT phase, seconds FROM timing WHERE part = 'all'"))
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"prefill": phases["prefill"] + phases["encode"], "decode": phases["attend"] + phases["other"],
            "peak_bytes": usage.ru_maxrss * 1024}


def run_transformers(work):
    import torch
    from transformers import AutoModelForCausalLM, DynamicCache, QuantizedCache

    _, dtype, kind = work["cell"].split(" ")
    torch.set_num_threads(work["threads"])
    folder, file = os.path.split(work["model"])
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype={"fp32": torch.float32,
                                                                                "bf16": torch.bfloat16}[dtype]).eval()
    ids = torch.tensor(random_prompts(work, model.config.vocab_size))
    if kind == "dynamic":
        cache = DynamicCache(config=model.config)
    else:
        cache = QuantizedCache(backend=kind, config=model.config, nbits=4, q_group_size=64, residual_length=128)
    with torch.inference_mode():
        start = time.perf_counter()
        logits = model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
        middle = time.perf_counter()
        for _ in range(work["new"]):
            logits = model(logits[:, -1:].argmax(-1), past_key_values=cache, use_cache=True).logits
        end = time.perf_counter()
    return {"prefill": middle - start, "decode": end - middle}


def run_llama(work):
    import xllamacpp

    kind = {"f16": "F16", "q8_0": "Q8_0", "q4_0": "Q4_0"}[work["cell"].split(" ")[1]]
    kind = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{kind}")
    params = xllamacpp.CommonParams()
    params.model.path = work["model"]
    params.n_parallel = work["batch"]
    params.n_ctx = work["batch"] * (work["prompt"] + work["new"] + 16)
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = work["threads"]
    params.cache_type_k = params.cache_type_v = kind
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
    params.n_batch = params.n_ubatch = 512
    params.verbosity = -1
    server = xllamacpp.Server(params)

    found = []
    ask = lambda prompt: found.append(server.handle_completions(
        {"prompt": prompt, "max_tokens": work["new"], "temperature": 0, "ignore_eos": True, "cache_prompt": False}))
    threads = [threading.Thread(target=ask, args=(prompt,)) for prompt in random_prompts(work, 40000)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole = time.perf_counter() - start
    # Of the sequence whose prompt came last: all others decode beside it.
    decode = min(each["timings"]["predicted_ms"] for each in found) / 1000
    return {"prefill": whole - decode, "decode": decode}


def run_cell(work):
    run = {"kvc": run_kvc, "transformers": run_transformers, "llama.cpp": run_llama}[work["cell"].split(" ")[0]]
    result = run(work)
    result.setdefault("peak_bytes", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    result["processor"] = processor_seconds(resource.RUSAGE_SELF) + processor_seconds(resource.RUSAGE_CHILDREN)
    print(json.dumps(result))


def measure(work):
    done = subprocess.run([sys.executable, __file__, "--cell", json.dumps(work)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": str(work["threads"])})
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    return {"error": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]}


def print_table(work, runs, base):
    print(f"\n{os.path.basename(work['model'])}, {work['prompt']} + {work['new']} tokens, batch {work['batch']}, "
          f"threads {work['threads']}; x: of {base}'s speed\n")
    print("| cell | prefill [tokens/s] | x | decode [tokens/s] | x | decode, best [tokens/s] | processor [s] | peak [MiB] |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    rate = lambda cell, phase, of: work["batch"] * work["prompt" if phase == "prefill" else "new"] / of(
        run[phase] for run in runs[cell])
    for cell, found in runs.items():
        errors = [run["error"] for run in found if "error" in run]
        if errors:
            print(f"| {cell} | failed: {errors[0][:120]} | | | | | | |")
            continue
        columns = []
        for phase in ("prefill", "decode"):
            of_base = "error" not in runs.get(base, [{"error": ""}])[0]
            ratio = f"{rate(cell, phase, statistics.median) / rate(base, phase, statistics.median):.2f}" if of_base else ""
            columns += [f"{rate(cell, phase, statistics.median):.1f}", ratio]
        print(f"| {cell} | {' | '.join(columns)} | {rate(cell, 'decode', min):.1f} | "
              f"{statistics.median(run['processor'] for run in found):.1f} | "
              f"{max(run['peak_bytes'] for run in found) / 2**20:.0f} |", flush=True)


def main():
    if sys.argv[1] == "--cell":
        return run_cell(json.loads(sys.argv[2]))
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--prompt", type=int, default=1020)
    parser.add_argument("--new", type=int, default=64)
    parser.add_argument("--batch", default="1,8")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cells", default=";".join(CELLS), help="divided by ';'")
    parser.add_argument("--base", default="transformers fp32 dynamic")
    parser.add_argument("-o", "--output")
    args = parser.parse_args()
    everything = []
    for batch in map(int, args.batch.split(",")):
        for threads in map(int, args.threads.split(",")):
            runs = {cell: [] for cell in args.cells.split(";")}
            work = {"program": os.path.abspath(args.program), "model": os.path.abspath(args.model),
                    "prompt": args.prompt, "new": args.new, "batch": batch, "threads": threads}
            for _ in range(args.repeats):  # interleaved: the machine's moods hit all
                for cell in runs:
                    runs[cell].append(measure({**work, "cell": cell}))
            print_table(work, runs, args.base)
            everything.append({**work, "runs": runs})
            if args.output:
                with open(args.output, "w") as file:
                    json.dump(everything, file, indent=1)


if __name__ == "__main__":
    main()
