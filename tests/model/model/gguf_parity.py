"""Models from GGUF files against Hugging Face transformers in fp32: small ones of every family, written by the public
gguf package with matrices of every type, and SmolLM2-135M-Instruct where KVC_SMOLLM2_GGUF names its file.

usage: gguf_parity.py PROGRAM; exit code 77 where the Python packages are absent.
"""
import os
import sys
import tempfile

try:
    import gguf
    import numpy as np
    import torch
    from gguf import GGMLQuantizationType as Type
    from logits_parity import compare_ids
    from transformers import (AutoModelForCausalLM, AutoTokenizer, LlamaConfig, MistralConfig, Phi3Config, Qwen2Config,
                              Qwen3Config)
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)

HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM, VOCAB, LAYERS = 256, 512, 8, 4, 32, 320, 2
SIZES = dict(hidden_size=HIDDEN, intermediate_size=INNER, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS,
             num_hidden_layers=LAYERS, vocab_size=VOCAB, max_position_embeddings=1024, bos_token_id=1, eos_token_id=2,
             pad_token_id=0)
TYPES = [Type.F32, Type.F16, Type.BF16, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.Q4_K, Type.Q5_K,
         Type.Q6_K]
# Below model.layers.<n>. and blk.<n>.
NAMES = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.qkv_proj": "attn_qkv", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.gate_up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
OTHERS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def families():
    llama3 = dict(rope_type="llama3", rope_theta=5e5, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                  original_max_position_embeddings=64)
    return [("llama", LlamaConfig(**SIZES, tie_word_embeddings=True)),
            ("llama", LlamaConfig(**SIZES, attention_bias=True, rope_parameters=llama3)),
            ("llama", MistralConfig(**SIZES, sliding_window=48)),
            ("qwen2", Qwen2Config(**SIZES, tie_word_embeddings=True)),
            ("qwen3", Qwen3Config(**SIZES, head_dim=HEAD_DIM)),
            ("phi3", Phi3Config(**SIZES, sliding_window=64))]


def stored_name(name):
    stem, ending = name.rsplit(".", 1)
    if stem in OTHERS:
        return f"{OTHERS[stem]}.{ending}"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{NAMES[part]}.{ending}"


def neighbours(rows, heads):
    """llama.cpp's order of a head's rows: channel i stands beside channel i + D/2."""
    out = np.empty_like(rows)
    half = HEAD_DIM // 2
    for head in range(heads):
        for i in range(half):
            out[head * HEAD_DIM + 2 * i] = rows[head * HEAD_DIM + i]
            out[head * HEAD_DIM + 2 * i + 1] = rows[head * HEAD_DIM + i + half]
    return out


def halves(rows, heads):
    out = np.empty_like(rows)
    half = HEAD_DIM // 2
    for head in range(heads):
        for i in range(half):
            out[head * HEAD_DIM + i] = rows[head * HEAD_DIM + 2 * i]
            out[head * HEAD_DIM + i + half] = rows[head * HEAD_DIM + 2 * i + 1]
    return out


def encoded(rows, kind, random):
    """Bytes of the type near these rows; of the types that the package cannot write, random blocks."""
    try:
        return gguf.quants.quantize(rows, kind)
    except NotImplementedError:
        block, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = random.integers(0, 256, (rows.size // block, size), dtype=np.uint8)
        scale = np.full(len(blocks), 2e-5, np.float16).view(np.uint8).reshape(-1, 2)
        at = size - 2 if kind == Type.Q6_K else 0
        blocks[:, at:at + 2] = scale
        if kind != Type.Q6_K:
            blocks[:, 2:4] = scale
        else:
            blocks[:, 192:208] = random.integers(0, 4, (len(blocks), 16), dtype=np.uint8)
        return blocks.reshape(rows.shape[0], -1)


def write(model, architecture, path, random):
    """Writes the model's weights, each in the next type, and puts what they became back into the model."""
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(LAYERS)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    rope = config.rope_parameters
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(HEAD_DIM)
    if architecture == "qwen3":
        writer.add_key_length(HEAD_DIM)
        writer.add_value_length(HEAD_DIM)
    if getattr(config, "sliding_window", None) and not getattr(config, "use_sliding_window", True) is False:
        writer.add_sliding_window(config.sliding_window)
    if rope["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_divisors(rope))
    state = model.state_dict()
    n = 0
    for name, tensor in state.items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values = tensor.numpy()
        swap = architecture == "llama" and (".q_proj." in name or ".k_proj." in name)
        heads = HEADS if ".q_proj." in name else KV_HEADS
        if swap:
            values = neighbours(values, heads)
        if tensor.dim() == 1:
            writer.add_tensor(stored_name(name), np.ascontiguousarray(values))
            continue
        kind = TYPES[n % len(TYPES)]
        n += 1
        data = encoded(np.ascontiguousarray(values), kind, random)
        held = gguf.quants.dequantize(data, kind).reshape(values.shape).astype(np.float32)
        writer.add_tensor(stored_name(name), data, raw_dtype=kind)
        tensor.copy_(torch.from_numpy(halves(held, heads) if swap else held))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def llama3_divisors(rope):
    """As llama.cpp's converter computes them, from the frequencies of the paper's rule."""
    half = HEAD_DIM // 2
    frequency = 1.0 / rope["rope_theta"] ** (np.arange(half) * 2.0 / HEAD_DIM)
    wavelength = 2 * np.pi / frequency
    context, low, high = rope["original_max_position_embeddings"], rope["low_freq_factor"], rope["high_freq_factor"]
    smooth = (context / wavelength - low) / (high - low)
    between = 1 / ((1 - smooth) / rope["factor"] + smooth)
    divisors = np.where(wavelength < context / high, 1.0,
                        np.where(wavelength > context / low, rope["factor"], between))
    return divisors.astype(np.float32)


def text_ids(path):
    tokenizer = AutoTokenizer.from_pretrained(os.path.dirname(path), gguf_file=os.path.basename(path))
    readme = open(os.path.join(os.path.dirname(__file__), "..", "..", "..", "tasks", "README.md")).read()
    return tokenizer(readme)["input_ids"][:600]


def main():
    program = sys.argv[1]
    results = []
    random = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as root:
        out = os.path.join(root, "out.safetensors")
        for i, (architecture, config) in enumerate(families()):
            torch.manual_seed(i)
            model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
            for name, parameter in model.named_parameters():
                if parameter.dim() == 1:
                    torch.nn.init.normal_(parameter, 0.0 if name.endswith("bias") else 1.0, 0.2)
            path = os.path.join(root, f"{i}.gguf")
            with torch.no_grad():
                write(model, architecture, path, random)
            ids = torch.randint(0, VOCAB, (300,), generator=torch.Generator().manual_seed(i)).tolist()
            results.append(compare_ids(program, type(config).__name__ + " as " + architecture, path, model, ids, 64, out))
        real = os.environ.get("KVC_SMOLLM2_GGUF")
        if real:
            model = AutoModelForCausalLM.from_pretrained(os.path.dirname(real), gguf_file=os.path.basename(real),
                                                         dtype=torch.float32, attn_implementation="eager").eval()
            results.append(compare_ids(program, "SmolLM2-135M-Instruct", real, model, text_ids(real), 200, out))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
