// The decoder families, each a row of one table: Llama, and what others do differently. The defaults are Llama's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvc {

enum class Activation : uint8_t { silu, relu, gelu_tanh };  // "gelu_pytorch_tanh" in config.json

// Where the norms of a layer's halves stand; f is attention or the MLP. All but after_sum have one more at the end.
enum class NormPlace : uint8_t {
  before,     // x + f(norm(x))
  after_sum,  // norm(x + f(x))
  of_output,  // x + norm(f(x)): OLMo 2
  around,     // x + norm'(f(norm(x))): Gemma
};

// RMSNorm of q and k before RoPE: of each head, weights [D]; or of all heads as one vector, weights [H*D].
enum class HeadNorms : uint8_t { none, each, merged };

// Which layers have the sliding window where config.json has no layer_types.
enum class Windows : uint8_t {
  none,          // sliding_window is not read
  all,           // every layer
  periodic,      // all but each window_period-th
  late,          // those from max_window_layers on
  without_rope,  // those that have no RoPE
};

// How the scores of a layer's experts become the weights of the chosen ones.
enum class Routing : uint8_t {
  softmax_first,  // softmax over all, of which the largest are chosen
  softmax_last,   // the largest scores are chosen, and softmax is over these
};

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
  // Norms of the halves' outputs, where NormPlace has them
  const char* attention_output_norm = "post_attention_layernorm";
  const char* mlp_output_norm = "post_feedforward_layernorm";
  const char* sinks = "self_attn.sinks";  // without .weight
  // Experts: <experts>.<e>.<name>. Files that hold them in one tensor are read as if they had these names.
  const char* router = "mlp.gate";
  const char* experts = "mlp.experts";
  std::vector<const char*> expert_up = {"gate_proj", "up_proj"};
  const char* expert_down = "down_proj";
};

// Experts in the place of a layer's MLP.
struct ExpertFields {
  const char* n_experts = nullptr;  // the field of config.json, or n_experts_too; none: no experts
  const char* n_experts_too = nullptr;
  const char* intermediate_size = "moe_intermediate_size";
  Routing routing = Routing::softmax_first;
  ConfigFlag normalized = {};  // the weights of the chosen are divided by their sum
  bool some_layers = false;    // mlp_only_layers and decoder_sparse_step are read: the other layers have an MLP
  bool biases = false;         // of router and experts
  bool clamped = false;  // (up + 1) * gate * sigmoid(swiglu_alpha * gate), both within swiglu_limit; else as the MLP
  // Files hold them in one tensor as [E, hidden, 2F], gate and up by turns; else as [E, 2F, hidden], gate first
  bool interleaved = false;
};

struct Architecture {
  const char* name = "";        // in config.json's `architectures`
  const char* model_type = "";  // in its `model_type`, which may be absent

  // config.json: what its fields are called, and what is built of what they may say.
  const char* defaults = "{}";             // JSON: fields that published models leave out, as the library fills them in
  std::vector<const char*> required = {};  // fields whose absence means a number of the library and not of the model
  std::vector<ConfigFlag> only = {};       // flags that have this value, or are absent
  std::vector<const char*> idle = {};      // fields without effect while the flags are as `only` has them
  const char* intermediate_size = "intermediate_size";
  const char* embedding_size = nullptr;  // width of the embedding where it may differ from hidden_size
  const char* activation_field = "hidden_act";
  NormPlace norms = NormPlace::before;
  ConfigFlag norm_before = {nullptr, true};  // false: after_sum in the place of `norms`
  ConfigFlag qkv_bias = {}, output_bias = {}, mlp_bias = {};
  ConfigFlag tied_embeddings = {"tie_word_embeddings", false};
  Windows windows = Windows::none;
  ConfigFlag window_flag = {nullptr, true};   // false: no layer has a window
  int64_t window_period = 0;                  // of Windows::periodic
  const char* window_period_field = nullptr;  // its field of config.json
  bool reads_layer_types = false;             // layer_types says which layers have the window
  const char* local_rope_theta = nullptr;     // theta of layers with a window
  bool plain_local_rope = false;              // rope_scaling is not of layers with a window
  bool no_rope_layers = false;                // no_rope_layers and no_rope_layer_interval are read
  bool no_rope_unless_named = false;          // RoPE only where position_embedding_type is "rope"
  const char* attention_scale = nullptr;      // field of the attention scale, which is
  double attention_scale_power = 1;           // this power of the field's value
  bool softcaps = false;                      // attn_logit_softcapping and final_logit_softcapping are read
  bool multipliers = false;                   // embedding_multiplier, residual_multiplier and logits_scaling are read
  bool renamed_rope_types = false;            // "su" and "yarn" are longrope
  bool query_growth = false;                  // llama_4_scaling_beta of RoPE's settings is read
  ExpertFields experts = {};

  // What is computed.
  Activation activation = Activation::silu;
  bool layer_norm = false;             // LayerNorm with a bias, eps 1e-5; else RMSNorm
  bool norm_weights_less_one = false;  // checkpoints hold an RMSNorm's weights minus 1
  bool wide_norms = false;             // an RMSNorm multiplies by its weights in fp32; else in the model's type
  bool embedding_times_root = false;   // the embedding is multiplied by sqrt(hidden_size), rounded to the model's type
  bool learned_positions = false;      // added to the embedding; else RoPE
  HeadNorms head_norms = HeadNorms::none;
  bool sinks = false;     // a logit per query head in the softmax's denominator
  bool gated_mlp = true;  // down(activation(gate) * up); else down(activation(up))

  TensorNames tensors = {};
};

const std::vector<Architecture>& architectures();

}  // namespace kvc
