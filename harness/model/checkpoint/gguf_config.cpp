#include "checkpoint/gguf_config.h"

#include <algorithm>
#include <map>
#include <set>

#include "checkpoint/gguf_architecture.h"
#include "checkpoint/gguf_metadata.h"
#include "checkpoint/gguf_rope.h"
#include "gguf/end_tokens.h"
#include "kvc/check.h"
#include "text/json_reader.h"
#include "text/nearest.h"

namespace kvc {
namespace {

using nlohmann::json;

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
constexpr const char *kWindow = "attention.sliding_window", *kPattern = "attention.sliding_window_pattern",
                     *kExperts = "expert_gating_func";

json to_json(const GgufValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto* integer = std::get_if<int64_t>(&value)) return *integer;
  return std::get<double>(value);
}

bool is_zero(const json& value) { return value.is_number() && value == 0; }

// A file's metadata as config.json would say it, and the keys that were read.
class ConfigWriter {
 public:
  ConfigWriter(const GgufFile& file, const GgufArchitecture& row) : file_(file), metadata_(file), row_(row) {}

  json write() {
    write_sizes_();
    write_flags_();
    write_window_();
    write_rotation_();
    write_fields_();
    metadata_.refuse_unknown(read_);
    return std::move(config_);
  }

 private:
  void write_sizes_() {
    const auto& embedding = file_.tensor("token_embd.weight").shape;
    KVC_CHECK(embedding.size() == 2, file_.path(), ": token_embd.weight has ", embedding.size(),
              " dimensions, expected 2");
    const int64_t hidden = metadata_.integer("embedding_length");
    const int64_t n_heads = metadata_.integer("attention.head_count");
    KVC_CHECK(n_heads >= 1, file_.path(), ": attention.head_count is ", n_heads, ", expected 1 or more");
    n_layers_ = metadata_.integer("block_count");
    head_dim_ = metadata_.integer("attention.key_length", hidden / n_heads);
    KVC_CHECK(metadata_.integer("attention.value_length", head_dim_) == head_dim_, file_.path(),
              ": attention.value_length is ", metadata_.integer("attention.value_length"), ", supported: the head's ",
              head_dim_, " channels");
    config_ = {{"architectures", {row_.hugging_face}},
               {"hidden_act", "silu"},
               {"hidden_size", hidden},
               {"intermediate_size", metadata_.integer("feed_forward_length")},
               {"num_hidden_layers", n_layers_},
               {"num_attention_heads", n_heads},
               {"num_key_value_heads", metadata_.integer("attention.head_count_kv", n_heads)},
               {"head_dim", head_dim_},
               {"vocab_size", embedding[0]},
               {"max_position_embeddings", metadata_.integer("context_length")},
               {"rms_norm_eps", metadata_.number("attention.layer_norm_rms_epsilon")}};
    if (row_.width_scale_layers > 0) {
      config_["query_pre_attn_scalar"] = n_layers_ == row_.width_scale_layers ? hidden / n_heads : head_dim_;
    }
  }

  void write_flags_() {
    const auto has = [&](const char* name) { return file_.tensors().contains(name); };
    config_["tie_word_embeddings"] = !has("output.weight");
    config_["attention_bias"] = has("blk.0.attn_q.bias");
    config_["mlp_bias"] = has("blk.0.ffn_gate.bias");
    config_["eos_token_id"] = gguf_end_tokens(file_);
    if (const auto bos = gguf_named_token(file_, "bos_token_id")) config_["bos_token_id"] = *bos;
  }

  // Which layers have the window: as the file lists them or by its period, else by the family's.
  void write_window_() {
    const int64_t window = metadata_.integer(kWindow, row_.absent_window);
    KVC_CHECK(window <= 0 || row_.has_window, metadata_.where(kWindow), " is ", window,
              ", and the file does not say in which layers; supported: 0");
    config_["sliding_window"] = window > 0 ? json(window) : json();
    if (row_.window_period == 0) return;
    read_.insert(kPattern);
    const auto listed = metadata_.per_layer(kPattern);
    KVC_CHECK(listed.empty() || static_cast<int64_t>(listed.size()) >= n_layers_, metadata_.where(kPattern), " has ",
              listed.size(), " values, expected one for each of ", n_layers_, " layers");
    const int64_t period = listed.empty() ? metadata_.integer(kPattern, row_.window_period) : 1;
    auto& types = config_["layer_types"] = json::array();
    for (int64_t i = 0; i < n_layers_; ++i) {
      const bool slides = listed.empty() ? period == 0 || (i + 1) % period != 0 : listed[static_cast<size_t>(i)] != 0;
      types.push_back(slides && window > 0 ? "sliding_attention" : "full_attention");
    }
  }

  void write_rotation_() {
    const int64_t n_rotated = metadata_.integer("rope.dimension_count", head_dim_);
    KVC_CHECK(
        n_rotated == head_dim_ || (!row_.swaps_rows && n_rotated >= 2 && n_rotated < head_dim_ && n_rotated % 2 == 0),
        file_.path(), ": rope.dimension_count is ", n_rotated, ", supported: the head's ", head_dim_, " channels",
        row_.swaps_rows ? "" : ", or an even number of them");
    if (n_rotated != head_dim_) {
      config_["partial_rotary_factor"] = static_cast<double>(n_rotated) / static_cast<double>(head_dim_);
    }
    config_["rope_theta"] = metadata_.number("rope.freq_base", 10000.0);
    config_["rope_scaling"] = gguf_rope_scaling(metadata_, n_rotated, read_);
    const std::string length = "attention.temperature_length", context = "rope.scaling.original_context_length";
    if (metadata_.has(length) && metadata_.has(context)) {
      KVC_CHECK(metadata_.integer(length) == metadata_.integer(context), metadata_.where(length), " is ",
                metadata_.integer(length), ", supported: ", context, " (", metadata_.integer(context), ")");
    }
  }

  void write_fields_() {
    auto more = json::parse(row_.more);
    if (!config_["rope_scaling"].is_object()) more.erase("rope_scaling");
    config_.merge_patch(more);
    for (const auto& [key, field] : row_.fields) {
      read_.insert(key);
      if (!metadata_.has(key)) continue;
      const auto value = to_json(metadata_.scalar(key));
      if (is_zero(value)) continue;  // "none", as llama.cpp has it
      const std::string name = field, inner = "rope_scaling.";
      (name.starts_with(inner) ? config_["rope_scaling"][name.substr(inner.size())] : config_[name]) = value;
    }
    read_.insert(row_.idle.begin(), row_.idle.end());
    if (config_.contains("num_experts_per_tok") && metadata_.integer(kExperts, 1) == 1) read_.insert(kExperts);
    read_.insert(kKnownKeys.begin(), kKnownKeys.end());
  }

  const GgufFile& file_;
  const GgufMetadata metadata_;
  const GgufArchitecture& row_;
  json config_;
  std::set<std::string> read_;
  int64_t n_layers_ = 0, head_dim_ = 0;
};

}  // namespace

ModelConfig load_gguf_config(const GgufFile& file) {
  const auto& row = architecture_of(file);
  const auto config = ConfigWriter(file, row).write();
  auto model = parse_model_config(JsonObject(config, file.path()));
  model.norm_offset = 0;  // stored with what is added
  read_rope_divisors(file, model);
  if (row.finetuned_is_rope && !GgufMetadata(file).boolean("rope.scaling.finetuned", true)) {
    for (auto& layer : model.layers) layer.has_rope = false;
  }
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
