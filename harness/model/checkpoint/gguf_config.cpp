#include "checkpoint/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "checkpoint/config_keys.h"
#include "gguf/end_tokens.h"
#include "kvc/check.h"
#include "text/json_reader.h"
#include "text/nearest.h"
#include "text/utf8.h"

namespace kvc {
namespace {

using nlohmann::json;

constexpr const char* kRopeDivisors = "rope_freqs.weight";

// Keys below the architecture's name that are read here, or that change nothing that is computed.
const std::set<std::string> kKnownKeys = {"block_count",
                                          "context_length",
                                          "embedding_length",
                                          "feed_forward_length",
                                          "vocab_size",
                                          "tensor_data_layout",
                                          "attention.head_count",
                                          "attention.head_count_kv",
                                          "attention.key_length",
                                          "attention.value_length",
                                          "attention.layer_norm_rms_epsilon",
                                          "attention.sliding_window",
                                          "rope.freq_base",
                                          "rope.dimension_count",
                                          "rope.scaling.type",
                                          "rope.scale_linear",
                                          "rope.scaling.factor",
                                          "rope.scaling.original_context_length",
                                          "rope.scaling.finetuned"};

class Metadata {
 public:
  explicit Metadata(const GgufFile& file) : file_(file), prefix_(file.text("general.architecture") + ".") {}

  bool has(const std::string& key) const { return file_.has(prefix_ + key); }
  double number(const std::string& key) const { return file_.number(prefix_ + key); }
  const std::string& text(const std::string& key) const { return file_.text(prefix_ + key); }
  // One integer, or one for each layer that are all the same.
  int64_t integer(const std::string& key) const {
    const auto& values = file_.metadata();
    const auto found = values.find(prefix_ + key);
    if (found == values.end() || !std::holds_alternative<std::vector<int64_t>>(found->second)) {
      return file_.integer(prefix_ + key);
    }
    const auto& layers = std::get<std::vector<int64_t>>(found->second);
    KVC_CHECK(!layers.empty() && std::equal(layers.begin() + 1, layers.end(), layers.begin()), file_.path(), ": key ",
              in_quotes(prefix_ + key), " differs from layer to layer, supported: one value for all");
    return layers.front();
  }
  int64_t integer(const std::string& key, int64_t absent) const { return has(key) ? integer(key) : absent; }
  void refuse_unknown() const {
    for (const auto& [key, value] : file_.metadata()) {
      if (!key.starts_with(prefix_) || kKnownKeys.contains(key.substr(prefix_.size())) || is_nothing(key, value)) {
        continue;
      }
      throw Error(concat(file_.path(), ": key ", in_quotes(key), shown(value),
                         " is none that is computed here, or known to change nothing"));
    }
  }
  const GgufFile& file() const { return file_; }

 private:
  // "no experts", "no scaling": 0 is what llama.cpp takes for a number that is not there; of a factor, but of none that
  // attention has in the place of 1 / sqrt(head_dim), 1.
  bool is_nothing(const std::string& key, const GgufValue& value) const {
    const bool multiplies = is_factor(key) && !key.substr(prefix_.size()).starts_with("attention.");
    if (const auto* number = std::get_if<double>(&value)) return *number == 0 || (multiplies && *number == 1);
    if (const auto* number = std::get_if<int64_t>(&value)) return *number == 0 || (multiplies && *number == 1);
    if (const auto* flag = std::get_if<bool>(&value)) return *flag == (key == prefix_ + "attention.causal");
    const auto* list = std::get_if<std::vector<int64_t>>(&value);
    return list && std::all_of(list->begin(), list->end(), [](int64_t number) { return number == 0; });
  }
  static std::string shown(const GgufValue& value) {
    if (const auto* number = std::get_if<double>(&value)) return concat(" (", *number, ")");
    if (const auto* number = std::get_if<int64_t>(&value)) return concat(" (", *number, ")");
    if (const auto* text = std::get_if<std::string>(&value)) return " (" + in_quotes(*text) + ")";
    const auto* flag = std::get_if<bool>(&value);
    return !flag ? "" : *flag ? " (true)" : " (false)";
  }

  const GgufFile& file_;
  std::string prefix_;
};

// As llama.cpp reads it: without a type it is linear, and a factor of 0 is none.
json rope_scaling(const Metadata& metadata) {
  const auto type = metadata.has("rope.scaling.type") ? metadata.text("rope.scaling.type") : "linear";
  double factor = 0;
  for (const char* key : {"rope.scaling.factor", "rope.scale_linear"}) {  // the second before there were types
    if (factor == 0 && metadata.has(key)) factor = metadata.number(key);
  }
  if (type == "none" || (type == "linear" && factor == 0)) return nullptr;
  return {{"rope_type", type}, {"factor", factor}};
}

// What the file says, as config.json would.
json config_json(const Metadata& metadata, const GgufArchitecture& architecture) {
  const auto& file = metadata.file();
  const auto& embedding = file.tensor("token_embd.weight").shape;
  KVC_CHECK(embedding.size() == 2, file.path(), ": token_embd.weight has ", embedding.size(),
            " dimensions, expected 2");
  const int64_t hidden = metadata.integer("embedding_length"), n_heads = metadata.integer("attention.head_count");
  KVC_CHECK(n_heads >= 1, file.path(), ": attention.head_count is ", n_heads, ", expected 1 or more");
  const int64_t head_dim = metadata.integer("attention.key_length", hidden / n_heads);
  for (const char* key : {"attention.value_length", "rope.dimension_count"}) {
    KVC_CHECK(metadata.integer(key, head_dim) == head_dim, file.path(), ": ", key, " is ", metadata.integer(key),
              ", supported: the head's ", head_dim, " channels");
  }
  json config{{"architectures", {architecture.hugging_face}},
              {"hidden_act", "silu"},
              {"hidden_size", hidden},
              {"intermediate_size", metadata.integer("feed_forward_length")},
              {"num_hidden_layers", metadata.integer("block_count")},
              {"num_attention_heads", n_heads},
              {"num_key_value_heads", metadata.integer("attention.head_count_kv", n_heads)},
              {"head_dim", head_dim},
              {"vocab_size", embedding[0]},
              {"max_position_embeddings", metadata.integer("context_length")},
              {"rms_norm_eps", metadata.number("attention.layer_norm_rms_epsilon")},
              {"rope_theta", metadata.has("rope.freq_base") ? metadata.number("rope.freq_base") : 10000.0},
              {"rope_scaling", rope_scaling(metadata)},
              {"tie_word_embeddings", !file.tensors().contains("output.weight")},
              {"attention_bias", file.tensors().contains("blk.0.attn_q.bias")},
              {"mlp_bias", file.tensors().contains("blk.0.ffn_gate.bias")},
              {"eos_token_id", gguf_end_tokens(file)}};
  if (const auto bos = gguf_named_token(file, "bos_token_id")) config["bos_token_id"] = *bos;
  if (const int64_t window = metadata.integer("attention.sliding_window", 0); window > 0) {
    config["sliding_window"] = window;
    if (architecture.swaps_rows) config["architectures"] = {"MistralForCausalLM"};  // the one of these that has one
    if (architecture.window_flag) config[architecture.window_flag] = true;
  }
  return config;
}

std::vector<float> rope_divisors(const GgufFile& file, int64_t head_dim) {
  if (!file.tensors().contains(kRopeDivisors)) return {};
  const auto& tensor = file.tensor(kRopeDivisors);
  KVC_CHECK(tensor.type == GgufTensor().type && tensor.shape == std::vector<int64_t>{head_dim / 2}, file.path(), ": ",
            kRopeDivisors, " is ", type_name(tensor), " of ", tensor.shape.back(), " values, expected F32 of ",
            head_dim / 2);
  std::vector<float> divisors(static_cast<size_t>(head_dim / 2));
  file.read(tensor, 0, tensor.n_bytes, divisors.data());
  for (const float divisor : divisors) {
    KVC_CHECK(std::isfinite(divisor) && divisor > 0, file.path(), ": ", kRopeDivisors, " holds ", divisor,
              ", expected numbers above 0");
  }
  return divisors;
}

}  // namespace

const GgufArchitecture& architecture_of(const GgufFile& file) {
  static const std::vector<GgufArchitecture> rows = {{"llama", "LlamaForCausalLM", true},
                                                     {"qwen2", "Qwen2ForCausalLM", false, "use_sliding_window"},
                                                     {"qwen3", "Qwen3ForCausalLM", false, "use_sliding_window"},
                                                     {"phi3", "Phi3ForCausalLM", false}};
  const auto& name = file.text("general.architecture");
  std::vector<std::string> known;
  for (const auto& row : rows) {
    if (name == row.name) return row;
    known.emplace_back(row.name);
  }
  throw Error(concat(file.path(), ": general.architecture is ", in_quotes(name), ", supported: ", join(known)));
}

ModelConfig load_gguf_config(const GgufFile& file) {
  const auto& architecture = architecture_of(file);
  const Metadata metadata(file);
  metadata.refuse_unknown();
  const auto config = config_json(metadata, architecture);
  auto model = parse_model_config(JsonObject(config, file.path()));
  model.rope.divisors = rope_divisors(file, model.head_dim);
  return model;
}

std::string weights_format(const GgufFile& file) {
  std::map<std::string, int64_t> n_values;
  for (const auto& [name, tensor] : file.tensors()) {
    if (tensor.shape.size() == 2 && name.starts_with("blk.")) {
      n_values[type_name(tensor)] += tensor.shape[0] * tensor.shape[1];
    }
  }
  std::vector<std::string> names;
  for (const auto& [name, n] : n_values) names.push_back(name);
  std::stable_sort(names.begin(), names.end(), [&](const auto& a, const auto& b) { return n_values[a] > n_values[b]; });
  return join(names);
}

}  // namespace kvc
