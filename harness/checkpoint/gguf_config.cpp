#include "checkpoint/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "gguf/json_reader.h"
#include "kvc/check.h"
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
      if (!key.starts_with(prefix_) || kKnownKeys.contains(key.substr(prefix_.size())) || is_nothing(value)) continue;
      throw Error(
          concat(file_.path(), ": key ", in_quotes(key), " is none that is computed here, or known to change nothing"));
    }
  }
  const GgufFile& file() const { return file_; }

 private:
  // "no experts", "no scaling"
  static bool is_nothing(const GgufValue& value) { return value == GgufValue(int64_t{0}) || value == GgufValue(false); }

  const GgufFile& file_;
  std::string prefix_;
};

json rope_scaling(const Metadata& metadata) {
  const auto type = metadata.has("rope.scaling.type") ? metadata.text("rope.scaling.type") : "none";
  if (type == "none") return nullptr;
  json scaling{{"rope_type", type}};
  if (metadata.has("rope.scaling.factor")) scaling["factor"] = metadata.number("rope.scaling.factor");
  return scaling;
}

json end_tokens(const GgufFile& file) {
  json ids = json::array();
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    if (!file.has(key)) continue;
    const int64_t id = file.integer(key);
    if (std::find(ids.begin(), ids.end(), json(id)) == ids.end()) ids.push_back(id);
  }
  return ids.empty() ? json() : ids;
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
              {"eos_token_id", end_tokens(file)}};
  if (file.has("tokenizer.ggml.bos_token_id")) config["bos_token_id"] = file.integer("tokenizer.ggml.bos_token_id");
  if (const int64_t window = metadata.integer("attention.sliding_window", 0); window > 0) {
    config["sliding_window"] = window;
    config["use_sliding_window"] = true;
    if (architecture.swaps_rows) config["architectures"] = {"MistralForCausalLM"};  // the one of these that has one
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
                                                     {"qwen2", "Qwen2ForCausalLM", false},
                                                     {"qwen3", "Qwen3ForCausalLM", false},
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
