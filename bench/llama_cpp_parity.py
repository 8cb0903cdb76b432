"""llama_cpp_parity.py KVC MODEL.gguf IDS.json LIBRARIES [TYPE/rot|TYPE/norot ...]: next-token distributions of kvc with the
llama_cpp compressor next to llama.cpp's own: one F32 file, the same ids, flash attention, ubatch 512.

1,536 ids are processed in chunks of 512, each through the cache (`--through all`), then 128 one by one. Printed for each
type, in thousandths of a nat: KL(engine, kvc); what the type costs in each of them, KL(its own f16, type); and how far kvc
is from itself when every weight is moved by one part in ten million, which is what rounding in another order amounts to.
Losses are means over the 128 tokens, in nats.
LIBRARIES: folder of libllama.so (built from the source that llama-cpp-python 0.3.36 ships); its ctypes bindings on PYTHONPATH.
MODEL.gguf is first written with F32 weights, by the `gguf` package."""
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from gguf_copy import copy_gguf

PROMPT, SCORED, UBATCH = int(os.environ.get("PROMPT", "1536")), 128, 512
DEFAULT = ["f16/rot", "q8_0/rot", "q5_1/rot", "q4_0/rot", "q8_0/norot", "q5_1/norot", "q4_0/norot"]
TYPES = {"f32": 0, "f16": 1, "bf16": 30, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "iq4_nl": 20}


def move_weights(source, target):
    import gguf
    shutil.copy(source, target)
    file, random = np.memmap(target, dtype=np.uint8, mode="r+"), np.random.default_rng(0)
    for tensor in gguf.GGUFReader(source).tensors:
        if "norm" in tensor.name:
            continue
        values = file[tensor.data_offset:tensor.data_offset + 4 * int(tensor.n_elements)].view(np.float32)
        values *= 1 + 1e-7 * random.standard_normal(values.size).astype(np.float32)
    file.flush()


def engine_logits(model, ids, kind):
    """In a process of its own: the rotation is read from the environment."""
    sys.path.pop(0)  # where another llama_cpp.py is
    import llama_cpp as lib
    lib.llama_backend_init()
    loaded = lib.llama_model_load_from_file(str(model).encode(), lib.llama_model_default_params())
    params = lib.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = 2048, PROMPT, UBATCH
    params.n_threads = params.n_threads_batch = 2
    params.type_k = params.type_v = TYPES[kind]
    params.flash_attn_type = 1
    context = lib.llama_init_from_model(loaded, params)
    n_vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(loaded))
    rows = []

    def decode(tokens):
        array = (lib.llama_token * len(tokens))(*tokens)
        assert lib.llama_decode(context, lib.llama_batch_get_one(array, len(tokens))) == 0
        rows.append(np.ctypeslib.as_array(lib.llama_get_logits_ith(context, -1), shape=(n_vocab,)).copy())

    decode(ids[:PROMPT])
    for token in ids[PROMPT:PROMPT + SCORED - 1]:
        decode([token])
    return np.stack(rows)


def log_softmax(x):
    x = x.astype(np.float64)
    x -= x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def kl(p, q):
    return 1000 * (np.exp(p) * (p - q)).sum(-1).mean()


def kvc_logits(kvc, model, ids_file, kind, rotate, folder):
    out = folder / "kvc.safetensors"
    options = f"llama_cpp: {{type_k: {kind}, type_v: {kind}, rotate: '{rotate}'}}"
    subprocess.run([kvc, "logits", str(model), "--ids", str(ids_file), "--output", str(out), "--compressor", options,
                    "--prompt-tokens", str(PROMPT), "--chunk", str(UBATCH), "--through", "all"], check=True)
    from safetensors.numpy import load_file
    return load_file(str(out))["logits"]


def in_process(model, ids_file, kind, rotated, folder):
    out = folder / "engine.npy"
    env = dict(os.environ, LLAMA_ATTN_ROT_DISABLE="0" if rotated else "1")
    run = subprocess.run([sys.executable, __file__, "--engine", str(model), str(ids_file), kind, str(out)], env=env,
                         capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"llama_cpp_parity: the engine with {kind}: {run.stderr[-2000:]}")
    return np.load(out)


def main(kvc, source, ids_file, libraries, *kinds):
    os.environ["LLAMA_CPP_LIB_PATH"] = libraries
    ids = json.loads(Path(ids_file).read_text())[:PROMPT + SCORED]
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        ids_file = folder / "ids.json"
        ids_file.write_text(json.dumps(ids[:PROMPT + SCORED - 1]))
        model, moved = folder / "f32.gguf", folder / "moved.gguf"
        copy_gguf(source, model, "F32")
        move_weights(model, moved)
        following = np.array(ids[PROMPT:PROMPT + SCORED])

        def loss(p):
            return -p[np.arange(SCORED), following].mean()

        def ours(file, kind, rotate):
            return log_softmax(kvc_logits(kvc, file, ids_file, kind, rotate, folder))

        engine_f16, kvc_f16 = log_softmax(in_process(model, ids_file, "f16", True, folder)), ours(model, "f16", "auto")
        print("| type | rotation | KL(engine, kvc) | KL(kvc, kvc with moved weights) | cost, engine | cost, kvc | "
              "loss, engine | loss, kvc |", flush=True)
        print("|---|---|--:|--:|--:|--:|--:|--:|")
        for entry in kinds or DEFAULT:
            kind, rotation = entry.split("/")
            rotate = "auto" if rotation == "rot" else "off"
            engine = log_softmax(in_process(model, ids_file, kind, rotation == "rot", folder))
            own = ours(model, kind, rotate)
            numbers = [kl(engine, own), kl(own, ours(moved, kind, rotate)), kl(engine_f16, engine), kl(kvc_f16, own)]
            print(f"| {kind} | {'on' if rotation == 'rot' else 'off'} | " + " | ".join(f"{n:.4f}" for n in numbers) +
                  f" | {loss(engine):.5f} | {loss(own):.5f} |", flush=True)


if sys.argv[1] == "--engine":
    ids = json.loads(Path(sys.argv[3]).read_text())
    np.save(sys.argv[5], engine_logits(sys.argv[2], ids, sys.argv[4]))
else:
    main(*sys.argv[1:])
