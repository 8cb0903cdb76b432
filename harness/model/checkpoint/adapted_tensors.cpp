#include "checkpoint/adapted_tensors.h"

#include <ATen/ATen.h>

#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "kvc/check.h"
#include "text/utf8.h"

namespace kvc {
namespace {

// A tensor's name without the wrapper's prefix; "" where it belongs to another tower.
std::string decoder_name(const std::string& name) {
  constexpr std::array<std::string_view, 2> kOthers = {"vision_tower.", "multi_modal_projector."};
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kPrefixes = {
      {{"language_model.model.", "model."},
       {"language_model.lm_head.", "lm_head."},
       {"model.language_model.", "model."}}};
  std::string_view inner = name;
  if (inner.starts_with("model.")) inner.remove_prefix(std::string_view("model.").size());
  for (const auto other : kOthers) {
    if (inner.starts_with(other)) return "";
  }
  for (const auto& [prefix, ours] : kPrefixes) {
    if (name.starts_with(prefix)) return concat(ours, name.substr(prefix.size()));
  }
  return name;
}

// uint8 [rows, G, 16] with values 2j and 2j + 1 in byte j and exponents [rows, G] -> MXFP4 rows of weight_blocks.h: the
// exponent, then values j and j + 16 in byte j.
at::Tensor mxfp4_rows(const at::Tensor& nibbles, const at::Tensor& exponents) {
  const auto low = nibbles.bitwise_and(15), high = nibbles.bitwise_right_shift(4);
  const auto values = at::stack({low, high}, -1).flatten(-2);  // [rows, G, 32] in order
  const auto packed = values.narrow(-1, 0, 16).bitwise_or(values.narrow(-1, 16, 16).bitwise_left_shift(4));
  return at::cat({exponents.unsqueeze(-1), packed}, -1).flatten(-2).contiguous();
}

class AdaptedTensors : public TensorSource {
 public:
  AdaptedTensors(std::unique_ptr<TensorSource> source, const ModelConfig& config)
      : source_(std::move(source)), config_(config) {
    for (const auto& name : source_->names()) {
      const auto ours = config.wrapper.empty() ? name : decoder_name(name);
      if (!ours.empty()) stored_[ours] = name;
    }
    for (int64_t i = 0; i < config.n_layers; ++i) {
      if (config.layers.at(static_cast<size_t>(i)).has_experts) split_experts_(i);
    }
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, stored] : stored_) names.push_back(name);
    for (const auto& [name, part] : parts_) names.push_back(name);
    return names;
  }
  bool has(const std::string& name) const override { return stored_.contains(name) || parts_.contains(name); }

  at::Tensor tensor(const std::string& name, const std::vector<int64_t>& shape) const override {
    const auto part = parts_.find(name);
    if (part == parts_.end()) return source_->tensor(stored_name_(name), shape);
    if (const auto held = blocks(name, shape)) {
      auto floats = at::empty(shape, at::kFloat);
      kernels::expand_blocks(held->type, held->bytes.const_data_ptr<uint8_t>(), floats.numel(),
                             floats.mutable_data_ptr<float>());
      return floats;
    }
    return floats_of_(part->second);
  }

  std::optional<BlockRows> blocks(const std::string& name, const std::vector<int64_t>& shape) const override {
    const auto part = parts_.find(name);
    if (part == parts_.end()) return source_->blocks(stored_name_(name), shape);
    if (!part->second.in_blocks) return std::nullopt;
    const auto [rows, columns] = rows_and_columns_(part->second.which);
    KVC_CHECK(columns % 32 == 0, part->second.stored, ": ", columns, " columns, expected a multiple of 32");
    const auto e = part->second.expert;
    const auto of_expert = [&](const char* suffix, std::vector<int64_t> shape_of_all) {
      const auto& all = fused_(part->second.stored + suffix, shape_of_all);
      return part_of_(all[e], part->second.which);
    };
    const int64_t n_experts = config_.experts.n_experts, groups = columns / 32;
    return BlockRows{kernels::BlockType::mxfp4, mxfp4_rows(of_expert("_blocks", {n_experts, rows, groups, 16}),
                                                           of_expert("_scales", {n_experts, rows, groups}))};
  }

 private:
  enum class Which : uint8_t { gate, up, down };
  struct Part {
    std::string stored;  // of all experts, without _bias, _blocks and _scales
    Which which;
    int64_t expert;
    bool is_bias, in_blocks;
  };

  const std::string& stored_name_(const std::string& name) const {
    const auto found = stored_.find(name);
    return found == stored_.end() ? name : found->second;
  }

  void split_experts_(int64_t layer) {
    const auto& names = config_.architecture->tensors;
    const auto prefix = concat(names.stem, "layers.", layer, ".", names.experts, ".");
    const std::array<std::pair<const char*, Which>, 3> all = {
        {{names.expert_up.at(0), Which::gate}, {names.expert_up.at(1), Which::up}, {names.expert_down, Which::down}}};
    for (const auto& [name, which] : all) {
      const auto fused = prefix + (which == Which::down ? "down_proj" : "gate_up_proj");
      const bool in_blocks = stored_.contains(fused + "_blocks");
      if (!in_blocks && !stored_.contains(fused)) continue;
      const bool has_bias = stored_.contains(fused + "_bias");
      for (int64_t e = 0; e < config_.experts.n_experts; ++e) {
        const auto expert = concat(prefix, e, ".", name);
        parts_[expert + ".weight"] = {fused, which, e, false, in_blocks};
        if (has_bias) parts_[expert + ".bias"] = {fused, which, e, true, false};
      }
    }
    for (const char* fused : {"gate_up_proj", "down_proj"}) {
      for (const char* suffix : {"", "_bias", "_blocks", "_scales"}) hide_(concat(prefix, fused, suffix));
    }
  }

  // What is read by parts has no name of its own.
  void hide_(const std::string& name) {
    const auto found = stored_.find(name);
    if (found == stored_.end()) return;
    fused_names_[name] = found->second;
    stored_.erase(found);
  }

  // Of all gate and up rows, or all down rows.
  std::pair<int64_t, int64_t> rows_and_columns_(Which which) const {
    const int64_t hidden = config_.hidden_size, width = config_.experts.intermediate_size;
    return which == Which::down ? std::pair{hidden, width} : std::pair{2 * width, hidden};
  }

  // Of an expert's rows.
  at::Tensor part_of_(const at::Tensor& rows, Which which) const {
    if (which == Which::down) return rows;
    const int64_t width = config_.experts.intermediate_size, up = which == Which::up;
    return config_.architecture->experts.interleaved ? rows.slice(0, up, 2 * width, 2)
                                                     : rows.narrow(0, up * width, width);
  }

  at::Tensor floats_of_(const Part& part) const {
    const auto [rows, columns] = rows_and_columns_(part.which);
    const int64_t n_experts = config_.experts.n_experts;
    if (part.is_bias) return part_of_(fused_(part.stored + "_bias", {n_experts, rows})[part.expert], part.which);
    const bool transposed = config_.architecture->experts.interleaved;
    const auto shape = transposed ? std::vector{n_experts, columns, rows} : std::vector{n_experts, rows, columns};
    const auto expert = fused_(part.stored, shape)[part.expert];
    return part_of_(transposed ? expert.t() : expert, part.which);
  }

  // Read once for all experts of a layer, which are asked for one after the other.
  const at::Tensor& fused_(const std::string& name, const std::vector<int64_t>& shape) const {
    const auto layer = name.substr(0, name.rfind('.'));
    if (layer != held_layer_) held_.clear();
    held_layer_ = layer;
    auto& held = held_[name];
    if (!held.defined()) held = source_->tensor(fused_names_.at(name), shape);
    return held;
  }

  std::unique_ptr<TensorSource> source_;
  ModelConfig config_;
  std::map<std::string, std::string> stored_;       // our name -> the file's
  std::map<std::string, std::string> fused_names_;  // the same of tensors that are read by parts
  std::map<std::string, Part> parts_;
  mutable std::string held_layer_;
  mutable std::map<std::string, at::Tensor> held_;
};

}  // namespace

std::unique_ptr<TensorSource> adapted_tensors(std::unique_ptr<TensorSource> source, const ModelConfig& config) {
  return std::make_unique<AdaptedTensors>(std::move(source), config);
}

}  // namespace kvc
