"""Small random checkpoints of every family: GQA 1:1, 4:1, 8:1; each rotation in both spellings; windows shorter than
the text; biases; tied and untied; one file and shards."""
import json
import os

import torch
import transformers
from safetensors.torch import load_file, save_file

LLAMA = dict(vocab_size=331, hidden_size=96, intermediate_size=200, num_hidden_layers=3, num_attention_heads=8,
             max_position_embeddings=1024, rms_norm_eps=1e-6, initializer_range=0.1, bos_token_id=1,
             eos_token_id=[2, 3], pad_token_id=0)
OPT = dict(vocab_size=331, hidden_size=96, ffn_dim=200, num_hidden_layers=3, num_attention_heads=8,
           max_position_embeddings=1024, init_std=0.1)
CONFIGS = {"Gemma3": "Gemma3TextConfig"}
# A rotation that few positions of the text fit without scaling
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)


def rope(theta=20000.0, **others):
    return dict(rope_theta=theta, **{"rope_type": "default", **others})


def of(family, **settings):
    """Class and configuration of a family, "Llama"."""
    return getattr(transformers, family + "ForCausalLM"), getattr(transformers, CONFIGS.get(family, family + "Config"))(
        **settings)


def llama(n_kv_heads, tied=False, head_dim=16, **others):
    return of("Llama", **{**LLAMA, "rope_parameters": rope(), **others}, head_dim=head_dim,
                                         num_key_value_heads=n_kv_heads, tie_word_embeddings=tied)


def mistral(n_kv_heads, window, **others):
    return of("Mistral", **LLAMA, rope_parameters=rope(), num_key_value_heads=n_kv_heads,
                                             sliding_window=window, **others)


def qwen2(n_kv_heads, **others):
    return of("Qwen2", **LLAMA, rope_parameters=rope(1e6), num_key_value_heads=n_kv_heads, **others)


def qwen3(n_kv_heads, **others):
    return of("Qwen3", **LLAMA, rope_parameters=rope(1e6), num_key_value_heads=n_kv_heads,
                                         head_dim=20, **others)


def phi3(n_kv_heads, window):
    return of("Phi3", **LLAMA, rope_parameters=rope(1e4), num_key_value_heads=n_kv_heads,
                                       sliding_window=window)


def longrope(n_pairs, **others):
    return rope(1e4, rope_type="longrope", short_factor=[1.0 + 0.05 * i for i in range(n_pairs)],
                long_factor=[1.0 + 0.5 * i for i in range(n_pairs)], original_max_position_embeddings=64, **others)


def partly(**others):
    """Phi 4's: three of four channels turn."""
    return of("Phi3", **{**LLAMA, "hidden_size": 128}, rope_parameters=rope(1e4, partial_rotary_factor=0.75),
              num_key_value_heads=2, **others)


def gemma(family, n_kv_heads=2, **others):
    return of(family, **{**LLAMA, "num_hidden_layers": 7}, num_key_value_heads=n_kv_heads, head_dim=16,
              query_pre_attn_scalar=24, sliding_window=40, tie_word_embeddings=True, **others)


def gpt_oss(**others):
    return of("GptOss", **{**LLAMA, "hidden_size": 64, "intermediate_size": 96}, num_key_value_heads=2, head_dim=16,
              sliding_window=24, num_local_experts=6, num_experts_per_tok=2,
              rope_parameters=rope(150000.0, truncate=False, beta_fast=32.0, beta_slow=1.0, **YARN), **others)


def experts(family, **others):
    return of(family, **LLAMA, rope_parameters=rope(1e5), num_key_value_heads=2, num_experts_per_tok=3, **others)


def opt(**others):
    return of("OPT", **OPT, **others)


def in_the_old_spelling(folder):
    """rope_parameters as rope_theta and rope_scaling, with "type" for the type of linear as its models have it."""
    path = os.path.join(folder, "config.json")
    config = json.load(open(path))
    scaling = config.pop("rope_parameters")
    config["rope_theta"] = scaling.pop("rope_theta")
    if scaling["rope_type"] == "linear":
        scaling["type"] = scaling.pop("rope_type")
    config["rope_scaling"] = scaling
    json.dump(config, open(path, "w"))


def wrapped(folder):
    """As the text part of a model of images and text, in the names of its published files."""
    path = os.path.join(folder, "config.json")
    text = json.load(open(path))
    text.pop("architectures")
    outer = dict(architectures=["Gemma3ForConditionalGeneration"], model_type="gemma3", text_config=text,
                 vision_config=dict(hidden_size=8), eos_token_id=[2, 3], bos_token_id=1)
    json.dump(outer, open(path, "w"))
    path = os.path.join(folder, "model.safetensors")
    tensors = {"language_model." + name: tensor for name, tensor in load_file(path).items()}
    tensors["vision_tower.vision_model.embeddings.patch_embedding.weight"] = torch.zeros(2, 2)
    tensors["multi_modal_projector.mm_input_projection_weight"] = torch.zeros(2, 2)
    save_file(tensors, path)


E2M1 = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, -0.0, -.5, -1, -1.5, -2, -3, -4, -6])


def with_mxfp4_experts(model, folder):
    """Experts in MXFP4 as gpt-oss's files have them, and the model with the weights that these are."""
    path = os.path.join(folder, "model.safetensors")
    tensors = load_file(path)
    state = model.state_dict()
    for name in [n for n in tensors if n.endswith("experts.gate_up_proj") or n.endswith("experts.down_proj")]:
        columns = tensors.pop(name).transpose(1, 2)  # [E, rows, columns]
        shape = columns.shape[:2] + (columns.shape[2] // 32,)
        codes = torch.randint(0, 16, shape + (16, 2), dtype=torch.uint8)
        scales = torch.randint(121, 125, shape, dtype=torch.uint8)
        tensors[name + "_blocks"] = codes[..., 0] | codes[..., 1] << 4
        tensors[name + "_scales"] = scales
        values = E2M1[codes.long()].flatten(-2) * torch.exp2(scales.float() - 127).unsqueeze(-1)
        state[name].copy_(values.flatten(-2).transpose(1, 2))
    save_file(tensors, path)
    path = os.path.join(folder, "config.json")
    config = json.load(open(path))
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    json.dump(config, open(path, "w"))


CHECKPOINTS = {
    "llama_gqa1_tied": llama(8, tied=True),
    "llama_gqa4_sharded": llama(2),
    "llama_gqa8_tied_sharded": llama(1, tied=True),
    "llama_gqa8": llama(1),
    "llama_linear": llama(2, rope_parameters=rope(1e4, rope_type="linear", factor=8.0)),
    "llama_linear_old": llama(8, rope_parameters=rope(1e4, rope_type="linear", factor=4.0)),
    "llama_llama3": llama(2, rope_parameters=rope(5e5, **LLAMA3), head_dim=32),
    "llama_llama3_old": llama(1, rope_parameters=rope(1e4, **LLAMA3), head_dim=32),
    "llama_biases": llama(2, attention_bias=True, mlp_bias=True),
    "mistral_gqa4_window48": mistral(2, 48),
    "mistral_gqa1_window130_sharded": mistral(8, 130, head_dim=16),
    "mistral_gqa8_no_window_tied": mistral(1, None, tie_word_embeddings=True),
    "qwen2_gqa8_tied": qwen2(1, tie_word_embeddings=True),
    "qwen2_gqa1_sharded": qwen2(8),
    "qwen3_gqa4": qwen3(2),
    "qwen3_gqa8_biases_tied": qwen3(1, attention_bias=True, tie_word_embeddings=True),
    "phi3_gqa4_window100": phi3(2, 100),
    "phi3_gqa1_sharded": phi3(8, None),
    "llama_yarn": llama(2, rope_parameters=rope(1e4, **YARN)),
    "llama_yarn_mscale": llama(2, rope_parameters=rope(1e4, **YARN, mscale=1.0, mscale_all_dim=0.7)),
    "llama_yarn_attention_factor_old": llama(2, rope_parameters=rope(1e4, **YARN, attention_factor=0.9, beta_fast=16)),
    "qwen2_yarn": of("Qwen2", **LLAMA, rope_parameters=rope(1e6, **YARN), num_key_value_heads=2),
    "qwen2_late_window": of("Qwen2", **LLAMA, rope_parameters=rope(1e6), num_key_value_heads=2,
                            use_sliding_window=True, sliding_window=30, max_window_layers=1),
    "qwen3_yarn_old": of("Qwen3", **LLAMA, rope_parameters=rope(1e6, **YARN), num_key_value_heads=2, head_dim=20),
    "mistral_yarn": of("Mistral", **LLAMA, rope_parameters=rope(1e4, **YARN), num_key_value_heads=2,
                       sliding_window=None),
    "phi3_longrope": of("Phi3", **LLAMA, rope_parameters=longrope(6), num_key_value_heads=2),
    "phi3_partial": partly(),
    "phi3_partial_window": partly(sliding_window=50),
    "qwen3_moe": experts("Qwen3Moe", head_dim=16, num_experts=8, moe_intermediate_size=40, norm_topk_prob=True),
    "qwen3_moe_some_layers": experts("Qwen3Moe", head_dim=16, num_experts=5, moe_intermediate_size=40,
                                     norm_topk_prob=False, mlp_only_layers=[0]),
    "mixtral": experts("Mixtral", num_local_experts=4, sliding_window=None),
    "mixtral_window": experts("Mixtral", num_local_experts=5, sliding_window=33),
    "gpt_oss": gpt_oss(),
    "gpt_oss_mxfp4": gpt_oss(),
    "gemma2": gemma("Gemma2"),
    "gemma2_softcaps": gemma("Gemma2", attn_logit_softcapping=2.0, final_logit_softcapping=3.0),
    "gemma3": gemma("Gemma3"),
    "gemma3_wrapped": gemma("Gemma3"),
    "gemma3_linear": gemma("Gemma3", n_kv_heads=1, rope_parameters={
        "full_attention": rope(1e6, rope_type="linear", factor=8.0), "sliding_attention": rope(1e4)}),
    "olmo2": of("Olmo2", **LLAMA, num_key_value_heads=2),
    "olmo3": of("Olmo3", **{**LLAMA, "num_hidden_layers": 5}, num_key_value_heads=4, sliding_window=40),
    "smollm3": of("SmolLM3", **{**LLAMA, "num_hidden_layers": 5}, num_key_value_heads=2, no_rope_layer_interval=2),
    "granite": of("Granite", **LLAMA, num_key_value_heads=2, attention_multiplier=0.2, embedding_multiplier=4.0,
                  residual_multiplier=0.3, logits_scaling=2.5, tie_word_embeddings=True),
    "granite4": of("GraniteMoeHybrid", **LLAMA, num_key_value_heads=2, attention_multiplier=0.2, num_local_experts=0,
                   embedding_multiplier=4.0, residual_multiplier=0.3, logits_scaling=2.5,
                   shared_intermediate_size=120, mamba_n_heads=8, position_embedding_type="rope",
                   layer_types=["attention"] * 3),
    "granite4_no_rope": of("GraniteMoeHybrid", **LLAMA, num_key_value_heads=2, num_local_experts=0,
                           shared_intermediate_size=120, mamba_n_heads=8, layer_types=["attention"] * 3),
    "ministral3": of("Ministral3", **LLAMA, num_key_value_heads=2, head_dim=16, rope_parameters=rope(
        1e4, rope_type="yarn", factor=16.0, original_max_position_embeddings=64, beta_fast=32.0, beta_slow=1.0,
        mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1)),
    "opt_tied": opt(),
    "opt_untied_sharded": opt(tie_word_embeddings=False),
    "opt_projected": opt(word_embed_proj_dim=40),
    "opt_no_biases": opt(enable_bias=False),
    "opt_norm_behind_projected": opt(do_layer_norm_before=False, word_embed_proj_dim=40),
}


def random_checkpoints(root):
    """Writes them all below root: (name, folder, model) of each."""
    for name, (model_class, config) in CHECKPOINTS.items():
        torch.manual_seed(0)
        config._attn_implementation = "eager"
        model = model_class(config)
        for parameter_name, parameter in model.named_parameters():
            if parameter_name.endswith("bias"):
                torch.nn.init.normal_(parameter, std=0.2)
            elif "norm" in parameter_name:
                torch.nn.init.uniform_(parameter, 0.5, 1.5)
            elif parameter_name.endswith(("sinks", "_bias")):
                torch.nn.init.normal_(parameter, std=1.0)
        folder = os.path.join(root, name)
        sharded = name.endswith("_sharded")
        model.save_pretrained(folder, max_shard_size="100KB" if sharded else "1GB")
        shards = [f for f in os.listdir(folder) if f.endswith(".safetensors")]
        assert (len(shards) > 1) == sharded, shards
        if name.endswith("_old"):
            in_the_old_spelling(folder)
        if name.endswith("_mxfp4"):
            with_mxfp4_experts(model, folder)
        if name.endswith("_wrapped"):
            wrapped(folder)
        yield name, folder, model.eval()
