// K and V of the tokens that each KV head keeps of those it has seen: every head as many, but not the same ones.
// Bytes of n kept tokens: n * H * (4 * D + 4) (8 * D with Precision::exact): K, V, and positions as int32.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kvc/footprint.h"
#include "kvc/layer_cache.h"
#include "kvc/quant/precision.h"

namespace kvc {

// Rows of x [H, n, X]: of head h those that index [H, m] names, int64 on the CPU, ascending; then n_more rows left
// unwritten -> [H, m + n_more, X]
KVC_EXPORT at::Tensor keep_rows(const at::Tensor& x, const at::Tensor& index, int64_t n_more = 0);

// The `heavy` highest of the first T - recent columns of scores [H, T], then the last `recent`; equal scores: the older
// token stays. -> [H, min(T, heavy + recent)] int64 on the CPU, ascending
KVC_EXPORT at::Tensor heaviest_and_recent(const at::Tensor& scores, int64_t heavy, int64_t recent);

class KVC_EXPORT KeptTokens {
 public:
  explicit KeptTokens(Precision precision) : type_(storage_type(precision)) {}

  // The first tokens: those at index [H, m] of k and v [H, T, D], position 0 being the first (see keep_rows).
  void start(const at::Tensor& k, const at::Tensor& v, const at::Tensor& index);
  // Drops all but the tokens at index [H, m] of those held, then takes k and v [H, T, D] at positions first ...
  void keep_and_push(const at::Tensor& index, const at::Tensor& k, const at::Tensor& v, int64_t first_position);

  int64_t n_tokens() const { return k_.defined() ? k_.size(1) : 0; }
  const at::Tensor& k() const { return k_; }  // [H, n, D]
  const at::Tensor& v() const { return v_; }  // [H, n, D]
  at::Tensor positions() const;               // [H, n] int64
  KeyValue dequantize() const;
  void add_to(Footprint& bytes) const;

  // Of each head the tokens that a sliding window (0: none) hides from a query at position length - 1.
  std::vector<int64_t> n_hidden(int64_t length, int64_t sliding_window) const;

 private:
  at::ScalarType type_;
  at::Tensor k_, v_, positions_;  // positions: [H, n, 1] int32
};

}  // namespace kvc
