#include "checkpoint/gguf_architecture.h"

#include <algorithm>
#include <string_view>

#include "kvc/check.h"
#include "text/nearest.h"
#include "text/utf8.h"

namespace kvc {
namespace {

const std::vector<std::pair<const char*, const char*>> kSoftcaps = {
    {"attn_logit_softcapping", "attn_logit_softcapping"}, {"final_logit_softcapping", "final_logit_softcapping"}};

const std::vector<GgufArchitecture>& rows() {
  static const std::vector<GgufArchitecture> all = {
      {.name = "llama",
       .hugging_face = "MixtralForCausalLM",
       .only_with = "expert_count",
       .fields = {{"expert_count", "num_local_experts"},
                  {"expert_used_count", "num_experts_per_tok"},
                  {"expert_feed_forward_length", "intermediate_size"}},
       .swaps_rows = true,
       .has_window = true},
      {.name = "llama",
       .hugging_face = "MistralForCausalLM",
       .only_with = "attention.sliding_window",
       .swaps_rows = true,
       .has_window = true},
      {.name = "llama", .hugging_face = "LlamaForCausalLM", .swaps_rows = true},
      {.name = "mistral3",
       .hugging_face = "Ministral3ForCausalLM",
       .only_with = "attention.temperature_scale",
       .fields = {{"attention.temperature_scale", "rope_scaling.llama_4_scaling_beta"}},
       .idle = {"attention.temperature_length"},  // checked with the rotation
       .swaps_rows = true},
      {.name = "mistral3", .hugging_face = "MistralForCausalLM", .swaps_rows = true},
      {.name = "qwen2", .hugging_face = "Qwen2ForCausalLM"},
      {.name = "qwen3", .hugging_face = "Qwen3ForCausalLM"},
      {.name = "qwen3moe",
       .hugging_face = "Qwen3MoeForCausalLM",
       .more = R"({"norm_topk_prob": true})",
       .fields = {{"expert_count", "num_experts"},
                  {"expert_used_count", "num_experts_per_tok"},
                  {"expert_feed_forward_length", "moe_intermediate_size"},
                  {"expert_weights_norm", "norm_topk_prob"}}},
      {.name = "gpt-oss",
       .hugging_face = "GptOssForCausalLM",
       .more = R"({"rope_scaling": {"truncate": false}})",
       .fields = {{"expert_count", "num_local_experts"},
                  {"expert_used_count", "num_experts_per_tok"},
                  {"expert_feed_forward_length", "intermediate_size"}},
       .has_window = true,
       .window_period = 2},
      {.name = "gemma2",
       .hugging_face = "Gemma2ForCausalLM",
       .fields = kSoftcaps,
       .has_window = true,
       .absent_window = 4096,
       .window_period = 2,
       .width_scale_layers = 46},
      {.name = "gemma3",
       .hugging_face = "Gemma3ForCausalLM",
       .fields = {{"rope.freq_base_swa", "rope_local_base_freq"},
                  {"final_logit_softcapping", "final_logit_softcapping"}},
       .has_window = true,
       .window_period = 6,
       .width_scale_layers = 62},
      {.name = "phi3", .hugging_face = "Phi3ForCausalLM", .has_window = true},
      {.name = "olmo2",
       .hugging_face = "Olmo3ForCausalLM",
       .only_with = "attention.sliding_window",
       .has_window = true,
       .window_period = 4},
      {.name = "olmo2", .hugging_face = "Olmo2ForCausalLM"},
      {.name = "smollm3", .hugging_face = "SmolLM3ForCausalLM", .swaps_rows = true},
      {.name = "granite",
       .hugging_face = "GraniteForCausalLM",
       .fields = {{"attention.scale", "attention_multiplier"},
                  {"embedding_scale", "embedding_multiplier"},
                  {"residual_scale", "residual_multiplier"},
                  {"logit_scale", "logits_scaling"}},
       // Granite 4's, whose converter is the one of hybrids
       .idle = {"ssm.conv_kernel", "ssm.state_size", "ssm.group_count", "ssm.inner_size", "ssm.time_step_rank",
                "expert_shared_feed_forward_length"},
       .swaps_rows = true,
       .finetuned_is_rope = true}};
  return all;
}

// Families that are known, and what of them is not computed.
struct Missing {
  const char* what;
  std::vector<std::string_view> names;
};

const std::vector<Missing>& missing() {
  static const std::vector<Missing> all = {
      {"latent attention (MLA) is not computed here; use a model that caches K and V of its heads, as qwen3moe",
       {"deepseek2", "deepseek2-ocr", "deepseek32", "glm-dsa", "minicpm3", "mistral4", "plm"}},
      {"layers without K and V (Mamba, linear attention, convolutions) are not computed here; use a model whose layers "
       "all have attention, as qwen3",
       {"mamba", "mamba2", "rwkv6", "rwkv7", "qwen3next", "qwen35", "qwen35moe", "granitehybrid", "jamba", "falcon-h1",
        "lfm2", "lfm2moe", "plamo2", "plamo3", "nemotron_h", "nemotron_h_moe", "kimi-linear", "minimax-01"}},
      {"heads of several sizes, layers that share K and V and embeddings per layer are not computed here; use gemma3",
       {"gemma4", "gemma3n"}},
      {"shared experts and sigmoid routing are not computed here; use qwen3moe or gpt-oss",
       {"deepseek", "glm4moe", "qwen2moe", "bailingmoe", "bailingmoe2", "dots1", "ernie4_5-moe", "hunyuan-moe",
        "llama4", "granitemoe", "minimax-m2", "afmoe"}}};
  return all;
}

bool has_key(const GgufFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) return false;
  if (const auto* integer = std::get_if<int64_t>(&found->second)) return *integer != 0;
  const auto* number = std::get_if<double>(&found->second);
  return !number || *number != 0;
}

}  // namespace

const GgufArchitecture& architecture_of(const GgufFile& file) {
  const auto& name = file.text("general.architecture");
  std::vector<std::string> known;
  for (const auto& row : rows()) {
    if (name == row.name && (*row.only_with == 0 || has_key(file, concat(name, ".", row.only_with)))) return row;
    if (std::find(known.begin(), known.end(), row.name) == known.end()) known.emplace_back(row.name);
  }
  std::string what;
  for (const auto& group : missing()) {
    if (std::find(group.names.begin(), group.names.end(), name) != group.names.end()) what = concat(": ", group.what);
  }
  throw Error(concat(file.path(), ": general.architecture is ", in_quotes(name), what, what.empty() ? ", " : "; ",
                     "supported: ", join(known)));
}

bool swaps_rows_in_gguf(const std::string& hugging_face) {
  const auto of_name = [&](const GgufArchitecture& row) { return hugging_face == row.hugging_face; };
  const auto row = std::find_if(rows().begin(), rows().end(), of_name);
  return row != rows().end() && row->swaps_rows;
}

}  // namespace kvc
