#include "checkpoint/gguf_tensors.h"

#include <ATen/ATen.h>

#include <map>

#include "checkpoint/gguf_architecture.h"
#include "checkpoint/gguf_config.h"
#include "gguf/gguf_file.h"
#include "kvc/check.h"
#include "text/utf8.h"

namespace kvc {
namespace {

// Below blk.<n>. and model.layers.<n>.
const std::map<std::string, std::string, std::less<>> kLayerNames = {
    {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},      {"attn_qkv", "self_attn.qkv_proj"},  {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"}, {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},           {"ffn_down", "mlp.down_proj"}};
const std::map<std::string, std::string, std::less<>> kOtherNames = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};

// "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight"; "" where there is none. Gate and up in one matrix
// have the name of both.
std::string hugging_face_name(std::string_view name, bool gate_and_up_in_one) {
  const auto dot = name.rfind('.');
  if (dot == std::string_view::npos) return "";
  const auto stem = name.substr(0, dot), ending = name.substr(dot);
  if (ending != ".weight" && ending != ".bias") return "";
  if (!stem.starts_with("blk.")) {
    const auto found = kOtherNames.find(stem);
    return found == kOtherNames.end() ? "" : found->second + std::string(ending);
  }
  const auto end = stem.find('.', 4);
  if (end == std::string_view::npos) return "";
  const auto part = stem.substr(end + 1);
  const auto found = kLayerNames.find(part);
  if (found == kLayerNames.end()) return "";
  const auto& layer_name = gate_and_up_in_one && part == "ffn_up" ? "mlp.gate_up_proj" : found->second;
  return concat("model.layers.", stem.substr(4, end - 4), ".", layer_name, ending);
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
    const bool in_one = config_.architecture->tensors.up.size() == 1;
    for (const auto& [name, tensor] : file_.tensors()) {
      if (name == "rope_freqs.weight") continue;  // of the config
      const auto known = hugging_face_name(name, in_one);
      names_[known.empty() ? name : known] = name;
    }
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, stored] : names_) names.push_back(name);
    return names;
  }
  bool has(const std::string& name) const override { return names_.contains(name); }

  at::Tensor tensor(const std::string& name, const std::vector<int64_t>& shape) const override {
    const auto& stored = find(name, shape);
    if (const auto held = blocks(name, shape)) {
      const auto& layout = kernels::layout_of(held->type);
      auto floats = at::empty(shape, at::kFloat);
      kernels::expand_blocks(held->type, held->bytes.const_data_ptr<uint8_t>(),
                             held->bytes.numel() / layout.n_bytes * layout.n_values, floats.mutable_data_ptr<float>());
      return floats;
    }
    constexpr at::ScalarType kTypes[] = {at::kFloat, at::kHalf, at::kBFloat16};
    auto floats = at::empty(shape, kTypes[static_cast<size_t>(std::get<FloatType>(stored.type))]);
    file_.read(stored, 0, stored.n_bytes, floats.mutable_data_ptr());
    return in_order(name, floats);
  }

  std::optional<BlockRows> blocks(const std::string& name, const std::vector<int64_t>& shape) const override {
    const auto& stored = find(name, shape);
    const auto* type = std::get_if<kernels::BlockType>(&stored.type);
    if (!type) return std::nullopt;
    const int64_t n_rows = stored.shape.size() == 2 ? stored.shape[0] : 1;
    auto bytes = at::empty({n_rows, stored.n_bytes / n_rows}, at::kByte);
    file_.read(stored, 0, stored.n_bytes, bytes.mutable_data_ptr());
    return BlockRows{*type, in_order(name, bytes)};
  }

 private:
  const GgufTensor& find(const std::string& name, const std::vector<int64_t>& shape) const {
    const auto found = names_.find(name);
    KVC_CHECK(found != names_.end(), file_.path(), ": no tensor for '", name, "'");
    const auto& tensor = file_.tensor(found->second);
    KVC_CHECK(tensor.shape == shape, file_.path(), ": tensor ", in_quotes(found->second), " has shape ",
              at::IntArrayRef(tensor.shape), ", expected ", at::IntArrayRef(shape), " from the metadata");
    return tensor;
  }

  at::Tensor in_order(const std::string& name, const at::Tensor& rows) const {
    const bool swapped =
        swaps_rows_ && (name.find(".q_proj.") != std::string::npos || name.find(".k_proj.") != std::string::npos);
    return swapped ? halves_from_neighbours(rows, config_.head_dim) : rows;
  }

  GgufFile file_;
  ModelConfig config_;
  bool swaps_rows_ = false;
  std::map<std::string, std::string> names_;  // Hugging Face's -> the file's
};

}  // namespace

std::unique_ptr<TensorSource> open_gguf_tensors(const std::filesystem::path& path) {
  return std::make_unique<GgufTensors>(path);
}

}  // namespace kvc
