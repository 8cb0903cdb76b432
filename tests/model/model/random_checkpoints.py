"""Small random checkpoints of every family: GQA 1:1, 4:1, 8:1; each rotation in both spellings; windows shorter than
the text; biases; tied and untied; one file and shards."""
import json
import os

import torch
from transformers import (LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, OPTConfig, OPTForCausalLM,
                          Phi3Config, Phi3ForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

LLAMA = dict(vocab_size=331, hidden_size=96, intermediate_size=200, num_hidden_layers=3, num_attention_heads=8,
             max_position_embeddings=1024, rms_norm_eps=1e-6, initializer_range=0.1, bos_token_id=1,
             eos_token_id=[2, 3], pad_token_id=0)
OPT = dict(vocab_size=331, hidden_size=96, ffn_dim=200, num_hidden_layers=3, num_attention_heads=8,
           max_position_embeddings=1024, init_std=0.1)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)


def rope(theta=20000.0, **others):
    return dict(rope_theta=theta, **{"rope_type": "default", **others})


def llama(n_kv_heads, tied=False, head_dim=16, **others):
    return LlamaForCausalLM, LlamaConfig(**{**LLAMA, "rope_parameters": rope(), **others}, head_dim=head_dim,
                                         num_key_value_heads=n_kv_heads, tie_word_embeddings=tied)


def mistral(n_kv_heads, window, **others):
    return MistralForCausalLM, MistralConfig(**LLAMA, rope_parameters=rope(), num_key_value_heads=n_kv_heads,
                                             sliding_window=window, **others)


def qwen2(n_kv_heads, **others):
    return Qwen2ForCausalLM, Qwen2Config(**LLAMA, rope_parameters=rope(1e6), num_key_value_heads=n_kv_heads, **others)


def qwen3(n_kv_heads, **others):
    return Qwen3ForCausalLM, Qwen3Config(**LLAMA, rope_parameters=rope(1e6), num_key_value_heads=n_kv_heads,
                                         head_dim=20, **others)


def phi3(n_kv_heads, window):
    return Phi3ForCausalLM, Phi3Config(**LLAMA, rope_parameters=rope(1e4), num_key_value_heads=n_kv_heads,
                                       sliding_window=window)


def opt(**others):
    return OPTForCausalLM, OPTConfig(**OPT, **others)


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
    "opt_tied": opt(),
    "opt_untied_sharded": opt(tie_word_embeddings=False),
    "opt_projected": opt(word_embed_proj_dim=40),
    "opt_no_biases": opt(enable_bias=False),
    "opt_norm_behind_projected": opt(do_layer_norm_before=False, word_embed_proj_dim=40),
}


def random_checkpoints(root):
    """Writes them all below root: (name, folder) of each."""
    for name, (model_class, config) in CHECKPOINTS.items():
        torch.manual_seed(0)
        model = model_class(config)
        for parameter_name, parameter in model.named_parameters():
            if parameter_name.endswith("bias"):
                torch.nn.init.normal_(parameter, std=0.2)
            elif "norm" in parameter_name:
                torch.nn.init.uniform_(parameter, 0.5, 1.5)
        folder = os.path.join(root, name)
        sharded = name.endswith("_sharded")
        model.save_pretrained(folder, max_shard_size="100KB" if sharded else "1GB")
        shards = [f for f in os.listdir(folder) if f.endswith(".safetensors")]
        assert (len(shards) > 1) == sharded, shards
        if name.endswith("_old"):
            in_the_old_spelling(folder)
        yield name, folder
