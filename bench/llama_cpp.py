"""Prompt and decode speed of llama.cpp on a GGUF file, to compare with `kvc bench` in the same minutes.

usage: llama_cpp.py MODEL.gguf [PROMPT_TOKENS NEW_TOKENS THREADS SEQUENCES]   (needs PyPI's xllamacpp)
Prints one JSON line per repeat: tokens/s of the prompt and of decoding, by llama.cpp's own clock, and the peak memory.
SEQUENCES > 1: as many requests at once, each with its own prompt; seconds until all are done.
"""
import json
import resource
import sys
import threading
import time

import xllamacpp

REPEATS = 3


def request(server, ids, n_new, answers):
    body = {"prompt": ids, "n_predict": n_new, "temperature": 0.0, "ignore_eos": True, "cache_prompt": False}
    answers.append(server.handle_completions(body))


def main():
    path = sys.argv[1]
    n_prompt, n_new, n_threads, n_sequences = (int(x) for x in (sys.argv[2:] + ["1000", "64", "2", "1"][len(sys.argv) - 2:]))
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx = (n_prompt + n_new + 8) * n_sequences
    params.n_parallel = n_sequences
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = n_threads
    params.warmup = True
    server = xllamacpp.Server(params)
    for repeat in range(REPEATS):
        answers, began = [], time.time()
        threads = []
        for i in range(n_sequences):
            ids = [1000 + (j * 7919 + i * 104729 + repeat * 31) % 50000 for j in range(n_prompt)]
            threads.append(threading.Thread(target=request, args=(server, ids, n_new, answers)))
            threads[-1].start()
        for thread in threads:
            thread.join()
        timings = answers[0].get("timings", {})
        print(json.dumps({"sequences": n_sequences, "seconds": round(time.time() - began, 2),
                          "prompt_tokens_a_second": round(timings.get("prompt_per_second", 0), 1),
                          "decoded_tokens_a_second": round(timings.get("predicted_per_second", 0), 2),
                          "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000}), flush=True)


if __name__ == "__main__":
    main()
