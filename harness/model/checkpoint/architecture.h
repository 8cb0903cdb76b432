// The decoder families, each a row of one table: Llama, and what others do differently. The defaults are Llama's.
#pragma once

#include <string>
#include <vector>

namespace kvc {

// A flag of config.json. Without a field it is the value.
struct ConfigFlag {
  const char* field = nullptr;
  bool value = false;  // where the field is absent
};

// Tensors are called <stem>layers.<n>.<name>.weight and .bias.
struct TensorNames {
  std::string stem = "model.";
  const char* attention_norm = "input_layernorm";
  std::vector<const char*> qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};  // or one of all rows
  const char* output = "self_attn.o_proj";
  const char* mlp_norm = "post_attention_layernorm";
  std::vector<const char*> up = {"mlp.gate_proj", "mlp.up_proj"};  // or one of all rows
  const char* down = "mlp.down_proj";
  const char* final_norm = "norm";  // <stem><name>
};

struct Architecture {
  const char* name = "";        // in config.json's `architectures`
  const char* model_type = "";  // in its `model_type`, which may be absent

  // config.json: what its fields are called, and what is built of what they may say.
  std::vector<const char*> required = {};  // fields whose absence means a number of the library and not of the model
  std::vector<ConfigFlag> only = {};       // flags that have this value, or are absent
  std::vector<const char*> idle = {};      // fields without effect while the flags are as `only` has them
  const char* intermediate_size = "intermediate_size";
  const char* embedding_size = nullptr;  // width of the embedding where it may differ from hidden_size
  const char* activation_field = "hidden_act";
  const char* activation = "silu";
  // A norm before each half of a layer and one at the end; else one behind each half, after the sum, and none at the
  // end
  ConfigFlag norm_before = {nullptr, true};
  ConfigFlag qkv_bias = {}, output_bias = {}, mlp_bias = {};
  ConfigFlag tied_embeddings = {"tie_word_embeddings", false};
  bool sliding_window = false;  // the field is read: a query sees so many tokens, null all

  // What is computed.
  bool layer_norm = false;         // LayerNorm with a bias, eps 1e-5; else RMSNorm
  bool learned_positions = false;  // added to the embedding; else RoPE
  bool head_norms = false;         // RMSNorm of each head's q and k before RoPE
  bool gated_mlp = true;           // down(silu(gate) * up); else down(relu(up))

  TensorNames tensors = {};
};

const std::vector<Architecture>& architectures();

}  // namespace kvc
