// One layer's K and V as KVQuant holds them: the first tokens exactly, the others as codes, and, where the sequence
// calibrates itself, tokens that wait until enough of them are there.
#pragma once

#include <kvc/quant/parts_cache.h>
#include <kvc/quant/token_blocks.h>

#include "calibration.h"
#include "matrix.h"

namespace kvquant {

struct CacheFormat {
  Format matrix;
  int64_t first_tokens = 1, calibration_tokens = 64;
  int64_t n_capped = 0;  // as in Matrix::push_back, of keys
};

class Cache final : public kvc::PartsCache {
 public:
  // tables: calibrated ones on the cache's device, which outlive it, or null: the sequence's own.
  Cache(const kvc::LayerInfo& info, const CacheFormat& format, const LayerTables* tables);

  void append(const kvc::NewTokens& tokens) override;
  kvc::KeyValue dequantize() const override;
  int64_t length() const override { return k_first_.n_tokens() + k_.n_tokens() + k_waiting_.n_tokens(); }
  int64_t n_encoded_tokens() const override { return k_.n_tokens(); }
  kvc::Footprint footprint() const override;

 private:
  void read_k(kvc::CompressedAttention& attention) const override;
  void read_v(kvc::CompressedAttention& attention) const override;
  void encode(const at::Tensor& k, const at::Tensor& v);
  void calibrate(const at::Tensor& k, const at::Tensor& v, const Range& k_range, const Range& v_range);
  const LayerTables& tables(LayerTables& own) const;

  CacheFormat format_;
  const LayerTables* calibrated_;
  at::ScalarType type_;
  kvc::TokenBlocks k_first_{type_}, v_first_{type_}, k_waiting_{type_}, v_waiting_{type_};
  bool has_products_;
  Matrix k_, v_;
  at::Tensor k_zero_, k_scale_;     // [M]; undefined where calibrated
  at::Tensor k_levels_, v_levels_;  // [2^b]; undefined where calibrated or uniform
};

}  // namespace kvquant
