"""Models from GGUF files against Hugging Face transformers in fp32: small ones of every family, written by the public
gguf package with matrices of every type, and real files: SmolLM2-135M-Instruct's where KVC_SMOLLM2_GGUF names it, and
those that KVC_GGUF_MODELS names, separated by colons; the first 100 tokens of a text, with KVC_TEST_MORE 500.

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
    import transformers
    from transformers import AutoModelForCausalLM, AutoTokenizer
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)

HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM, VOCAB, LAYERS = 256, 512, 8, 4, 32, 320, 3
SIZES = dict(hidden_size=HIDDEN, intermediate_size=INNER, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS,
             num_hidden_layers=LAYERS, vocab_size=VOCAB, max_position_embeddings=1024, bos_token_id=1, eos_token_id=2,
             pad_token_id=0)
TYPES = [Type.F32, Type.F16, Type.BF16, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.Q4_K, Type.Q5_K,
         Type.Q6_K]
# Below model.layers.<n>. and blk.<n>.; of families with norms behind attention and MLP, NORMS before
NORMS = {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
         "post_feedforward_layernorm": "post_ffw_norm"}
NAMES = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.qkv_proj": "attn_qkv", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.gate_up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
         "mlp.gate": "ffn_gate_inp", "mlp.router": "ffn_gate_inp", "self_attn": "attn_sinks"}
OTHERS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def config(family, **settings):
    return getattr(transformers, family + "Config")(**{**SIZES, **settings})


def families():
    """(architecture of the file, configuration, its further keys)"""
    llama3 = dict(rope_type="llama3", rope_theta=5e5, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                  original_max_position_embeddings=64)
    yarn = dict(rope_type="yarn", rope_theta=1e5, factor=4.0, original_max_position_embeddings=64)
    yarn_keys = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 64}
    moe = dict(num_experts_per_tok=2, rope_parameters=dict(rope_type="default", rope_theta=1e5))
    moe_keys = {"expert_count": 5, "expert_used_count": 2}
    gemma = dict(head_dim=HEAD_DIM, tie_word_embeddings=True, sliding_window=40, num_hidden_layers=7)
    return [("llama", config("Llama", tie_word_embeddings=True), {}),
            ("llama", config("Llama", attention_bias=True, rope_parameters=llama3), {}),
            ("llama", config("Llama", rope_parameters=yarn), yarn_keys),
            ("llama", config("Mistral", sliding_window=48), {}),
            ("llama", config("Mixtral", num_local_experts=5, sliding_window=None, **moe), moe_keys),
            ("qwen2", config("Qwen2", tie_word_embeddings=True), {}),
            ("qwen3", config("Qwen3", head_dim=HEAD_DIM, rope_parameters=yarn), yarn_keys),
            ("qwen3moe", config("Qwen3Moe", head_dim=HEAD_DIM, num_experts=5, moe_intermediate_size=256,
                                norm_topk_prob=True, **moe), {**moe_keys, "expert_feed_forward_length": 256}),
            ("gpt-oss", config("GptOss", head_dim=HEAD_DIM, num_local_experts=5, num_experts_per_tok=2,
                               sliding_window=24, rope_parameters={**yarn, "truncate": False, "beta_fast": 32.0,
                                                                   "beta_slow": 1.0}),
             {**moe_keys, **yarn_keys, "expert_feed_forward_length": INNER}),
            ("gemma2", config("Gemma2", query_pre_attn_scalar=HEAD_DIM, **gemma),
             {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}),
            ("gemma3", config("Gemma3Text", query_pre_attn_scalar=HEAD_DIM, **gemma), {}),
            ("olmo2", config("Olmo2"), {}),
            ("olmo2", config("Olmo3", sliding_window=40, num_hidden_layers=5, num_key_value_heads=KV_HEADS),
             {"attention.sliding_window_pattern": [True, True, True, False, True]}),
            ("smollm3", config("SmolLM3", num_hidden_layers=5), {}),
            ("granite", config("Granite", attention_multiplier=0.2, embedding_multiplier=4.0, residual_multiplier=0.3,
                               logits_scaling=2.5),
             {"attention.scale": 0.2, "embedding_scale": 4.0, "residual_scale": 0.3, "logit_scale": 2.5}),
            ("phi3", config("Phi3", sliding_window=64), {})]


PERMUTED = {"llama", "smollm3", "granite"}


def stored_name(name, architecture):
    stem, ending = name.rsplit(".", 1)
    if stem in OTHERS:
        return f"{OTHERS[stem]}.{ending}"
    _, _, layer, part = stem.split(".", 3)
    names = {**NAMES, **NORMS} if architecture in ("gemma2", "gemma3", "olmo2") else dict(NAMES)
    if architecture == "gpt-oss":
        names["post_attention_layernorm"] = "post_attention_norm"
    return f"blk.{layer}.{names[part]}.{'weight' if ending == 'sinks' else ending}"


def experts_of(name, tensor, interleaved):
    """(name in the file, [E, ...]) of a tensor that holds gate and up, or down, of all experts."""
    layer = name.split(".")[2]
    kind = "bias" if name.endswith("_bias") else "weight"
    if interleaved and kind == "weight":
        tensor = tensor.transpose(1, 2)
    if "down_proj" in name:
        return [(f"blk.{layer}.ffn_down_exps.{kind}", tensor)]
    half = tensor.shape[1] // 2
    gate, up = (tensor[:, 0::2], tensor[:, 1::2]) if interleaved else (tensor[:, :half], tensor[:, half:])
    return [(f"blk.{layer}.ffn_gate_exps.{kind}", gate), (f"blk.{layer}.ffn_up_exps.{kind}", up)]


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


def write(model, architecture, keys, path, random):
    """Writes the model's weights, each in the next type, and puts what they became back into the model."""
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    rope = config.rope_parameters
    rope = rope.get("full_attention", rope)
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(HEAD_DIM)
    if getattr(config, "head_dim", None):
        writer.add_key_length(HEAD_DIM)
        writer.add_value_length(HEAD_DIM)
    if getattr(config, "sliding_window", None) and not getattr(config, "use_sliding_window", True) is False:
        writer.add_sliding_window(config.sliding_window)
    if rope["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_divisors(rope))
    for key, value in keys.items():
        add = {float: writer.add_float32, int: writer.add_uint32, str: writer.add_string, list: writer.add_array}
        add[type(value)](f"{architecture}.{key}", value)
    state = model.state_dict()
    types = iter(TYPES[(i + 3) % len(TYPES)] for i in range(1000))
    for name, tensor in state.items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if ".experts." in name:
            for stored, part in experts_of(name, tensor, architecture == "gpt-oss"):
                kind = Type.F32 if part.dim() == 2 else Type.MXFP4 if architecture == "gpt-oss" else next(types)
                put(writer, stored, part, kind, random)
            continue
        values = tensor.numpy()
        swap = architecture in PERMUTED and (".q_proj." in name or ".k_proj." in name)
        heads = HEADS if ".q_proj." in name else KV_HEADS
        if swap:
            values = neighbours(values, heads)
        stored = stored_name(name, architecture)
        if tensor.dim() == 1:
            plus = 1 if architecture.startswith("gemma") and "norm" in name else 0
            writer.add_tensor(stored, np.ascontiguousarray(values) + np.float32(plus))
            continue
        # Routers stay exact: a tie between experts is no matter of rounding.
        kind = Type.F32 if "ffn_gate_inp" in stored else next(types)
        data = encoded(np.ascontiguousarray(values), kind, random)
        held = gguf.quants.dequantize(data, kind).reshape(values.shape).astype(np.float32)
        writer.add_tensor(stored, data, raw_dtype=kind)
        tensor.copy_(torch.from_numpy(halves(held, heads) if swap else held))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def put(writer, name, part, kind, random):
    """A view of the model's tensor, [E, ...]: written, and set to what was written."""
    values = np.ascontiguousarray(part.numpy())
    data = encoded(values.reshape(-1, values.shape[-1]), kind, random)
    held = gguf.quants.dequantize(data, kind).reshape(values.shape).astype(np.float32)
    writer.add_tensor(name, data.reshape(values.shape[:-1] + data.shape[-1:]), raw_dtype=kind)
    part.copy_(torch.from_numpy(held))


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
        for i, (architecture, config, keys) in enumerate(families()):
            torch.manual_seed(i)
            model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
            for name, parameter in model.named_parameters():
                if parameter.dim() == 1:
                    zero = name.endswith(("bias", "sinks")) or architecture.startswith("gemma")
                    torch.nn.init.normal_(parameter, 0.0 if zero else 1.0, 0.2)
                elif name.endswith("_bias"):
                    torch.nn.init.normal_(parameter, 0.0, 0.2)
            path = os.path.join(root, f"{i}.gguf")
            with torch.no_grad():
                write(model, architecture, keys, path, random)
            ids = torch.randint(0, VOCAB, (300,), generator=torch.Generator().manual_seed(i)).tolist()
            results.append(compare_ids(program, type(config).__name__ + " as " + architecture, path, model, ids, 100, out))
        n_ids, n_greedy = (500, 50) if os.environ.get("KVC_TEST_MORE") else (100, 25)
        reals = [os.environ.get("KVC_SMOLLM2_GGUF", "")] + os.environ.get("KVC_GGUF_MODELS", "").split(os.pathsep)
        for real in filter(None, reals):
            model = AutoModelForCausalLM.from_pretrained(os.path.dirname(real), gguf_file=os.path.basename(real),
                                                         dtype=torch.float32, attn_implementation="eager").eval()
            results.append(compare_ids(program, os.path.basename(real), real, model, text_ids(real)[:n_ids], n_greedy, out))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
