#include "checkpoint/architecture.h"

namespace kvc {

const std::vector<Architecture>& architectures() {
  static const std::vector<Architecture> rows = {
      {.name = "LlamaForCausalLM",
       .qkv_bias = {"attention_bias"},
       .output_bias = {"attention_bias"},
       .mlp_bias = {"mlp_bias"}},
      {.name = "MistralForCausalLM", .required = {"num_key_value_heads", "sliding_window"}, .sliding_window = true},
      {.name = "Qwen2ForCausalLM",
       .required = {"num_key_value_heads"},
       .only = {{"use_sliding_window", false}},
       .qkv_bias = {nullptr, true}},
      {.name = "Qwen3ForCausalLM",
       .required = {"num_key_value_heads", "head_dim"},
       .only = {{"use_sliding_window", false}},
       .qkv_bias = {"attention_bias"},
       .output_bias = {"attention_bias"},
       .head_norms = true},
      {.name = "Phi3ForCausalLM",
       .sliding_window = true,
       .tensors = {.qkv = {"self_attn.qkv_proj"}, .up = {"mlp.gate_up_proj"}}},
      {.name = "OPTForCausalLM",
       .only = {{"layer_norm_elementwise_affine", true}, {"_remove_final_layer_norm", false}},
       .intermediate_size = "ffn_dim",
       .embedding_size = "word_embed_proj_dim",
       .activation_field = "activation_function",
       .activation = "relu",
       .norm_before = {"do_layer_norm_before", true},
       .qkv_bias = {"enable_bias", true},
       .output_bias = {"enable_bias", true},
       .mlp_bias = {"enable_bias", true},
       .tied_embeddings = {"tie_word_embeddings", true},
       .layer_norm = true,
       .learned_positions = true,
       .gated_mlp = false,
       .tensors = {.stem = "model.decoder.",
                   .attention_norm = "self_attn_layer_norm",
                   .output = "self_attn.out_proj",
                   .mlp_norm = "final_layer_norm",
                   .up = {"fc1"},
                   .down = "fc2",
                   .final_norm = "final_layer_norm"}},
  };
  return rows;
}

}  // namespace kvc
