#include "checkpoint/repeated_head.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace kvc {
namespace {

constexpr int64_t kRows = 64;
constexpr double kLeastCosine = 0.9;

// fp32 [kRows, columns]
at::Tensor some_rows(const TensorSource& tensors, const std::string& name, int64_t n_rows, int64_t n_columns) {
  const auto rows = at::arange(std::min(kRows, n_rows)) * (n_rows / std::min(kRows, n_rows));
  const auto held = tensors.blocks(name, {n_rows, n_columns});
  if (!held) return tensors.tensor(name, {n_rows, n_columns}).index_select(0, rows).to(at::kFloat);
  const auto bytes = held->bytes.index_select(0, rows);
  auto floats = at::empty({rows.numel(), n_columns}, at::kFloat);
  kernels::expand_blocks(held->type, bytes.const_data_ptr<uint8_t>(), floats.numel(), floats.mutable_data_ptr<float>());
  return floats;
}

}  // namespace

bool repeats_embedding(const TensorSource& tensors, const ModelConfig& config) {
  const auto* embedding = "model.embed_tokens.weight";
  const auto* head = "lm_head.weight";
  if (!tensors.has(embedding) || !tensors.has(head)) return false;
  const auto rows = [&](const char* name) {
    return some_rows(tensors, name, config.vocab_size, config.embedding_size);
  };
  const auto cosine = at::cosine_similarity(rows(embedding), rows(head));
  return cosine.min().item<double>() >= kLeastCosine;
}

}  // namespace kvc
