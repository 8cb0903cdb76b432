#include "checkpoint/config_keys.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "kvc/check.h"

namespace kvc {
namespace {

using nlohmann::json;

// What libraries write about themselves, for training, for other heads on the same decoder and for their own
// generation; none of it reaches the logits.
const std::set<std::string, std::less<>> kHarmless = {
    // the library and its ways of computing the same
    "_commit_hash", "_name_or_path", "attn_implementation", "auto_map", "base_model_pp_plan", "base_model_tp_plan",
    "chunk_size_feed_forward", "custom_pipelines", "dtype", "is_decoder", "is_llama_config", "pretraining_tp",
    "return_dict", "torch_dtype", "torchscript", "use_bfloat16", "use_cache", "use_memory_efficient_attention",
    "use_sdpa", "tensor_parallel_degree",
    // the tokenizer's, and lengths that are none of the model's limits
    "max_seq_len", "max_sequence_length", "model_max_length", "original_max_position_embeddings", "prefix",
    "seq_length", "tokenizer_class", "tokenizer_model_max_length", "tokenizer_padding_side",
    // training
    "dropout", "finetuned", "finetuning_task", "gradient_checkpointing", "init_std", "initializer_factor",
    "initializer_range", "keys_to_ignore_at_inference", "layerdrop", "neftune_noise_alpha", "router_jitter_noise",
    "use_reentrant",
    // other heads
    "id2label", "label2id", "num_labels", "problem_type", "task_specific_params",
    // generation and what it returns; here the experiment says both
    "bad_words_ids", "begin_suppress_tokens", "diversity_penalty", "do_sample", "early_stopping",
    "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "length_penalty", "max_length",
    "max_new_tokens", "min_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_logits_to_keep",
    "num_return_sequences", "output_attentions", "output_hidden_states", "output_router_logits", "output_scores",
    "remove_invalid_values", "repetition_penalty", "return_dict_in_generate", "suppress_tokens", "temperature", "top_k",
    "top_p", "typical_p"};
constexpr std::array<std::string_view, 8> kHarmlessBeginnings = {
    "transformers", "unsloth_", "use_flash", "use_fused", "_attn_implementation", "_flash_attn", "summary_", "tf_"};
constexpr std::array<std::string_view, 8> kHarmlessEndings = {
    "_dropout", "_dropout_prob", "_pdrop", "_version", "_token_id", "_token_ids", "_loss_coef", "_loss_weight"};

// The value that switches a key off, where its name suggests another one. null: only its absence does, because an
// attention scale replaces 1 / sqrt(head_dim).
const std::map<std::string, json, std::less<>> kNeutral = {{"attention_multiplier", nullptr},
                                                           {"attention_scale", nullptr},
                                                           {"attn_scale", nullptr},
                                                           {"query_pre_attn_scalar", nullptr},
                                                           {"softmax_scale", nullptr},
                                                           {"causal", true},
                                                           {"is_causal", true},
                                                           {"position_embedding_type", "rope"},
                                                           {"scale_attn_weights", true},
                                                           {"use_rope", true}};

bool is_harmless(std::string_view name) {
  return kHarmless.contains(name) ||
         std::any_of(kHarmlessBeginnings.begin(), kHarmlessBeginnings.end(),
                     [&](std::string_view beginning) { return name.starts_with(beginning); }) ||
         std::any_of(kHarmlessEndings.begin(), kHarmlessEndings.end(),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

bool is_neutral(const std::string& name, const json& value) {
  if (value.is_null()) return true;
  if (const auto known = kNeutral.find(name); known != kNeutral.end()) return value == known->second;
  if (value.is_number()) return value == (is_factor(name) ? 1 : 0);
  if (value.is_boolean()) return !value.get<bool>();
  return value.empty() || value == "";
}

std::string allowed(const std::string& name) {
  if (const auto known = kNeutral.find(name); known != kNeutral.end()) {
    return known->second.is_null() ? "" : " or " + known->second.dump();
  }
  return is_factor(name) ? " or 1" : "";
}

}  // namespace

bool is_factor(const std::string& name) {
  constexpr std::array<std::string_view, 5> kWords = {"multiplier", "scale", "scaling", "factor", "_ratio"};
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view word) { return name.find(word) != std::string::npos; });
}

void refuse_unread(const JsonObject& object, const std::set<std::string>& read) {
  for (const auto& [name, value] : object.json().items()) {
    KVC_CHECK(read.contains(name) || is_harmless(name) || is_neutral(name, value), object.where(name), " is ",
              brief(value), ": neither computed here nor known to change nothing; allowed: absent", allowed(name));
  }
}

}  // namespace kvc
