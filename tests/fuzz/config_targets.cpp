#include <cmath>

#include "checkpoint/model_config.h"
#include "target.h"
#include "text/json_reader.h"

namespace kvc_fuzz {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

json small_config(const std::string& architecture) {
  json config = {{"architectures", {architecture}},
                 {"hidden_size", 64},
                 {"intermediate_size", 128},
                 {"num_hidden_layers", 2},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},
                 {"head_dim", 16},
                 {"vocab_size", 100},
                 {"max_position_embeddings", 512},
                 {"rms_norm_eps", 1e-5},
                 {"sliding_window", nullptr},
                 {"attention_bias", false},
                 {"tie_word_embeddings", false},
                 {"bos_token_id", 1},
                 {"eos_token_id", {2, 3}}};
  if (architecture != "OPTForCausalLM") return config;
  config.update({{"ffn_dim", 128}, {"word_embed_proj_dim", 32}});
  for (const char* other : {"intermediate_size", "rms_norm_eps"}) config.erase(other);
  return config;
}

std::vector<json> config_seeds() {
  std::vector<json> seeds = {kvc::read_json(fs::path(KVC_SOURCE_DIR) / "models" / "demo" / "config.json")};
  for (const auto& row : kvc::architectures()) seeds.push_back(small_config(row.name));
  const json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 128}};
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    seeds.push_back(small_config("LlamaForCausalLM"));
    seeds.back()[field] = llama3;
    seeds.push_back(small_config("MistralForCausalLM"));
    seeds.back()[field] = {{"type", "linear"}, {"factor", 4.0}};
    seeds.back()["sliding_window"] = 128;
  }
  return seeds;
}

// Sizes that a decoder can be built of without any product of them leaving 63 bits.
void read_config(const fs::path& dir) {
  const auto model = kvc::load_model_config(dir);
  for (const int64_t size :
       {model.hidden_size, model.embedding_size, model.intermediate_size, model.n_layers, model.n_heads,
        model.n_kv_heads, model.head_dim, model.vocab_size, model.max_position_embeddings}) {
    promise(size >= 1, "a size is below 1");
  }
  promise(model.n_heads % model.n_kv_heads == 0, "the heads do not divide");
  promise(model.head_dim % 2 == 0 && model.head_dim <= 4096, "head_dim is " + std::to_string(model.head_dim));
  promise(model.sliding_window >= 0, "the window is negative");
  promise(model.norm_eps >= 0 && model.norm_eps <= 1, "norm_eps is out of range");
  promise(model.bos_token_ids.size() <= 1, "there are several first tokens");
  for (const auto& ids : {model.bos_token_ids, model.eos_token_ids}) {
    for (const int64_t id : ids) promise(id >= 0 && id < model.vocab_size, "a token id is out of range");
  }
  int64_t kv_bytes = 4, weights = 8;
  for (const int64_t n : {model.n_layers, model.n_kv_heads, model.head_dim, model.max_position_embeddings}) {
    promise(!__builtin_mul_overflow(kv_bytes, n, &kv_bytes), "the bytes of a full cache overflow");
  }
  for (const int64_t n : {3 * model.n_heads * model.head_dim, model.hidden_size}) {
    promise(!__builtin_mul_overflow(weights, n, &weights), "the bytes of a matrix overflow");
  }
  const auto frequencies = kvc::rope_frequencies(model.rope, model.head_dim);
  promise(static_cast<int64_t>(frequencies.size()) == model.head_dim / 2, "a pair has no frequency");
  for (const float frequency : frequencies)
    promise(std::isnormal(frequency) && frequency > 0, "a frequency is not one");
}

std::vector<std::string> config_words() {
  std::vector<std::string> words = {"rope_scaling",
                                    "rope_parameters",
                                    "rope_type",
                                    "type",
                                    "default",
                                    "linear",
                                    "llama3",
                                    "yarn",
                                    "factor",
                                    "low_freq_factor",
                                    "high_freq_factor",
                                    "rope_theta",
                                    "original_max_position_embeddings",
                                    "partial_rotary_factor",
                                    "head_dim",
                                    "hidden_act",
                                    "silu",
                                    "relu",
                                    "gelu",
                                    "layer_types",
                                    "full_attention",
                                    "quantization_config",
                                    "use_sliding_window",
                                    "vocab_size"};
  for (const auto& row : kvc::architectures()) words.emplace_back(row.name);
  return words;
}

}  // namespace

Target config_target() {
  return {"config",
          14,
          config_seeds(),
          config_words(),
          [](const fs::path&) {},
          [](const fs::path& dir, std::string text, Mutator&) { write_file(dir / "config.json", text); },
          read_config};
}

Target generation_target() {
  return {"generation",
          10,
          {json{{"bos_token_id", 0}, {"eos_token_id", 1}, {"do_sample", false}}, json{{"eos_token_id", {1, 2, 3}}}},
          {"eos_token_id", "bos_token_id", "pad_token_id", "temperature"},
          [](const fs::path& dir) { write_file(dir / "config.json", small_config("LlamaForCausalLM").dump()); },
          [](const fs::path& dir, std::string text, Mutator&) { write_file(dir / "generation_config.json", text); },
          read_config};
}

}  // namespace kvc_fuzz
