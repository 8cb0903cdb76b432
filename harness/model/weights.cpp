#include "model/weights.h"

#include <ATen/ATen.h>

#include <set>

#include "kvc/check.h"
#include "model/safetensors.h"

namespace kvc {
namespace {

// Reads each tensor once and remembers its name, so that what nobody asked for shows up.
class WeightReader {
 public:
  WeightReader(const std::filesystem::path& dir, at::ScalarType dtype)
      : dir_(dir.string()), checkpoint_(dir), dtype_(dtype) {}

  // The rows of several matrices [rows_i, columns] below each other, in the model's type
  at::Tensor stacked(const std::vector<std::pair<std::string, int64_t>>& names_and_rows, int64_t columns) {
    int64_t n_rows = 0;
    for (const auto& [name, rows] : names_and_rows) n_rows += rows;
    auto all = at::empty({n_rows, columns}, dtype_);
    int64_t row = 0;
    for (const auto& [name, rows] : names_and_rows) {
      all.narrow(0, row, rows).copy_(read(name, {rows, columns}));
      row += rows;
    }
    return all;
  }
  at::Tensor matrix(const std::string& name, int64_t rows, int64_t columns) { return stacked({{name, rows}}, columns); }
  at::Tensor norm(const std::string& name, int64_t size) { return read(name, {size}).to(at::kFloat); }

  void refuse_unread(bool tied_embeddings) const {
    for (const auto& name : checkpoint_.names()) {
      const bool known = read_.contains(name) || name.ends_with(".rotary_emb.inv_freq") ||  // computed from config.json
                         (tied_embeddings && name == "lm_head.weight");
      KVC_CHECK(known, dir_, ": tensor '", name, "' has no place in this architecture");
    }
  }

 private:
  at::Tensor read(const std::string& name, const std::vector<int64_t>& shape) {
    read_.insert(name);
    return checkpoint_.tensor(name, shape);
  }

  std::string dir_;
  Checkpoint checkpoint_;
  at::ScalarType dtype_;
  std::set<std::string> read_;
};

DecoderLayer load_layer(WeightReader& reader, const ModelConfig& config, int64_t layer) {
  const auto prefix = concat("model.layers.", layer, ".");
  const auto attention = prefix + "self_attn.", mlp = prefix + "mlp.";
  const int64_t q_rows = config.n_heads * config.head_dim, kv_rows = config.n_kv_heads * config.head_dim;
  DecoderLayer weights;
  weights.attention_norm = reader.norm(prefix + "input_layernorm.weight", config.hidden_size);
  weights.qkv = reader.stacked({{attention + "q_proj.weight", q_rows},
                                {attention + "k_proj.weight", kv_rows},
                                {attention + "v_proj.weight", kv_rows}},
                               config.hidden_size);
  weights.output = reader.matrix(attention + "o_proj.weight", config.hidden_size, q_rows);
  weights.mlp_norm = reader.norm(prefix + "post_attention_layernorm.weight", config.hidden_size);
  weights.gate_up = reader.stacked(
      {{mlp + "gate_proj.weight", config.intermediate_size}, {mlp + "up_proj.weight", config.intermediate_size}},
      config.hidden_size);
  weights.down = reader.matrix(mlp + "down_proj.weight", config.hidden_size, config.intermediate_size);
  return weights;
}

}  // namespace

Weights load_weights(const std::filesystem::path& dir, const ModelConfig& config, at::ScalarType dtype) {
  WeightReader reader(dir, dtype);
  Weights weights;
  weights.embedding = reader.matrix("model.embed_tokens.weight", config.vocab_size, config.hidden_size);
  for (int64_t layer = 0; layer < config.n_layers; ++layer) {
    weights.layers.push_back(load_layer(reader, config, layer));
  }
  weights.final_norm = reader.norm("model.norm.weight", config.hidden_size);
  weights.logits = config.tied_embeddings ? weights.embedding
                                          : reader.matrix("lm_head.weight", config.vocab_size, config.hidden_size);
  reader.refuse_unread(config.tied_embeddings);
  return weights;
}

int64_t Weights::bytes() const {
  size_t n_bytes = embedding.nbytes() + final_norm.nbytes() + (logits.is_same(embedding) ? 0 : logits.nbytes());
  for (const auto& layer : layers) {
    for (const auto* tensor :
         {&layer.attention_norm, &layer.qkv, &layer.output, &layer.mlp_norm, &layer.gate_up, &layer.down}) {
      n_bytes += tensor->nbytes();
    }
  }
  return static_cast<int64_t>(n_bytes);
}

}  // namespace kvc
