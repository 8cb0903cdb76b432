#include "checkpoint/gguf_tensors.h"

#include <ATen/ATen.h>

#include <map>
#include <optional>

#include "checkpoint/gguf_architecture.h"
#include "checkpoint/gguf_config.h"
#include "checkpoint/gguf_rope.h"
#include "gguf/gguf_file.h"
#include "kvc/check.h"
#include "text/utf8.h"

namespace kvc {
namespace {

using Names = std::map<std::string, std::string, std::less<>>;

// What stands below blk.<n>. as the family's checkpoints call it below layers.<n>., without .weight or .bias.
Names layer_names(const ModelConfig& config) {
  const auto& names = config.architecture->tensors;
  Names all = {{"attn_norm", names.attention_norm},
               {"attn_q_norm", "self_attn.q_norm"},
               {"attn_k_norm", "self_attn.k_norm"},
               {"attn_output", names.output},
               {"ffn_norm", names.mlp_norm},
               {"post_attention_norm", names.mlp_norm},
               {"ffn_down", names.down},
               {"ffn_gate_inp", names.router}};
  if (config.architecture->sinks) all["attn_sinks"] = names.sinks;
  if (config.is_output_normed()) {
    all["post_attention_norm"] = names.attention_output_norm;
    all["post_ffw_norm"] = names.mlp_output_norm;
  }
  const auto add = [&](const std::vector<const char*>& stored, const char* in_one,
                       const std::vector<const char*>& ours) {
    if (ours.size() == 1) {
      all[in_one] = ours[0];
    } else {
      for (size_t i = 0; i < ours.size(); ++i) all[stored[i]] = ours[i];
    }
  };
  add({"attn_q", "attn_k", "attn_v"}, "attn_qkv", names.qkv);
  add({"ffn_gate", "ffn_up"}, "ffn_up", names.up);
  return all;
}

// Matrices of all experts, and an expert's.
Names expert_names(const ModelConfig& config) {
  const auto& names = config.architecture->tensors;
  if (config.experts.n_experts == 0) return {};
  return {{"ffn_gate_exps", names.expert_up.at(0)},
          {"ffn_up_exps", names.expert_up.at(1)},
          {"ffn_down_exps", names.expert_down}};
}

// Row j * D/2 + i of each head, Hugging Face's, is the stored row 2i + j.
at::Tensor halves_from_neighbours(const at::Tensor& rows, int64_t head_dim) {
  KVC_CHECK(rows.size(0) % head_dim == 0, "gguf: ", rows.size(0), " rows, expected heads of ", head_dim);
  const auto shape = rows.sizes().vec();
  return rows.reshape({rows.size(0) / head_dim, head_dim / 2, 2, -1}).transpose(1, 2).contiguous().view(shape);
}

class GgufTensors : public TensorSource {
 public:
  explicit GgufTensors(const std::filesystem::path& path) : file_(path), config_(load_gguf_config(file_)) {
    swaps_rows_ = architecture_of(file_).swaps_rows;
    const auto of_layer = layer_names(config_), of_expert = expert_names(config_);
    for (const auto& [name, tensor] : file_.tensors()) {
      if (!is_rope_tensor(name)) add_(name, of_layer, of_expert);
    }
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, place] : places_) names.push_back(name);
    return names;
  }
  bool has(const std::string& name) const override { return places_.contains(name); }

  at::Tensor tensor(const std::string& name, const std::vector<int64_t>& shape) const override {
    const auto part = find(name, shape);
    if (const auto held = blocks(name, shape)) {
      const auto& layout = kernels::layout_of(held->type);
      auto floats = at::empty(shape, at::kFloat);
      kernels::expand_blocks(held->type, held->bytes.const_data_ptr<uint8_t>(),
                             held->bytes.numel() / layout.n_bytes * layout.n_values, floats.mutable_data_ptr<float>());
      return floats;
    }
    constexpr at::ScalarType kTypes[] = {at::kFloat, at::kHalf, at::kBFloat16};
    auto floats = at::empty(shape, kTypes[static_cast<size_t>(std::get<FloatType>(part.tensor->type))]);
    file_.read(*part.tensor, part.first, part.n_bytes, floats.mutable_data_ptr());
    return in_order(name, floats);
  }

  std::optional<BlockRows> blocks(const std::string& name, const std::vector<int64_t>& shape) const override {
    const auto part = find(name, shape);
    const auto* type = std::get_if<kernels::BlockType>(&part.tensor->type);
    if (!type) return std::nullopt;
    const int64_t n_rows = shape.size() == 2 ? shape[0] : 1;
    auto bytes = at::empty({n_rows, part.n_bytes / n_rows}, at::kByte);
    file_.read(*part.tensor, part.first, part.n_bytes, bytes.mutable_data_ptr());
    return BlockRows{*type, in_order(name, bytes)};
  }

 private:
  struct Place {
    std::string stored;             // the file's name
    std::optional<int64_t> expert;  // of several in one tensor
  };
  struct Part {  // of the file
    const GgufTensor* tensor;
    int64_t first, n_bytes;
  };

  // A name that is not of the family stays as it is, and is refused when nobody has asked for it.
  void add_(const std::string& stored, const Names& of_layer, const Names& of_expert) {
    static const Names others = {
        {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
    const auto dot = stored.rfind('.');
    const auto stem = stored.substr(0, dot), ending = dot == std::string::npos ? "" : stored.substr(dot);
    const auto end = stem.starts_with("blk.") ? stem.find('.', 4) : std::string::npos;
    const bool known_ending = ending == ".weight" || ending == ".bias";
    const auto prefix = end == std::string::npos ? "" : concat("model.layers.", stem.substr(4, end - 4), ".");
    const auto name = end == std::string::npos ? stem : stem.substr(end + 1);
    const auto& names = end == std::string::npos ? others : of_layer;
    if (const auto found = names.find(name); known_ending && found != names.end()) {
      const bool bare = found->second == config_.architecture->tensors.sinks;
      places_[concat(prefix, found->second, bare ? "" : ending)] = {stored, {}};
    } else if (const auto expert = of_expert.find(name); known_ending && !prefix.empty() && expert != of_expert.end()) {
      for (int64_t e = 0; e < config_.experts.n_experts; ++e) {
        places_[concat(prefix, config_.architecture->tensors.experts, ".", e, ".", expert->second, ending)] = {stored,
                                                                                                               e};
      }
    } else {
      places_[stored] = {stored, {}};
    }
  }

  Part find(const std::string& name, const std::vector<int64_t>& shape) const {
    const auto found = places_.find(name);
    KVC_CHECK(found != places_.end(), file_.path(), ": no tensor for '", name, "'");
    const auto& [stored, expert] = found->second;
    const auto& tensor = file_.tensor(stored);
    auto expected = shape;
    if (expert) expected.insert(expected.begin(), config_.experts.n_experts);
    KVC_CHECK(tensor.shape == expected, file_.path(), ": tensor ", in_quotes(stored), " has shape ",
              at::IntArrayRef(tensor.shape), ", expected ", at::IntArrayRef(expected), " from the metadata");
    if (!expert) return {&tensor, 0, tensor.n_bytes};
    const int64_t n_bytes = tensor.n_bytes / config_.experts.n_experts;
    return {&tensor, *expert * n_bytes, n_bytes};
  }

  at::Tensor in_order(const std::string& name, const at::Tensor& rows) const {
    const bool swapped =
        swaps_rows_ && (name.find(".q_proj.") != std::string::npos || name.find(".k_proj.") != std::string::npos);
    return swapped ? halves_from_neighbours(rows, config_.head_dim) : rows;
  }

  GgufFile file_;
  ModelConfig config_;
  bool swaps_rows_ = false;
  std::map<std::string, Place> places_;  // by Hugging Face's names
};

}  // namespace

std::unique_ptr<TensorSource> open_gguf_tensors(const std::filesystem::path& path) {
  return std::make_unique<GgufTensors>(path);
}

}  // namespace kvc
