// CompressedAttention's products where the cache is on a device: tensors of the device as harness/cuda/products.h takes
// them. scores: [H_q, n] of the part's tokens, a view; out: [H_q, X] contiguous; both fp32 and added to.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "kvc/quant/group_quant.h"
#include "kvc/quant/level_codes.h"
#include "kvc/quant/outliers.h"
#include "kvc/quant/requantized_cache.h"

namespace kvc::on_device {

void score(const at::Tensor& q, const GroupCodes& k, const at::Tensor& scores);
void weigh(const at::Tensor& weights, const GroupCodes& v, at::Tensor& out);
// Codes [1, n_groups, n_words] of groups in such an order over all of a [H, n, D] tensor of these sizes.
void score(const at::Tensor& q, const GroupCodes& k, GroupOrder order, at::IntArrayRef sizes, const at::Tensor& scores);
void weigh(const at::Tensor& weights, const GroupCodes& v, GroupOrder order, at::IntArrayRef sizes, at::Tensor& out);
void score(const at::Tensor& q, const LevelCodes& k, const at::Tensor& scores);  // the factor is the caller's
void weigh(const at::Tensor& weights, const LevelCodes& v, at::Tensor& out);
// x [H_kv or 1, n, X] of fp16, bf16 or fp32, rows contiguous
void score(const at::Tensor& q, const at::Tensor& k, const at::Tensor& scores);
void weigh(const at::Tensor& weights, const at::Tensor& v, at::Tensor& out);
void score(const at::Tensor& q, const Outliers& k, int64_t n_kv_heads, const at::Tensor& scores);
void weigh(const at::Tensor& weights, const Outliers& v, int64_t n_kv_heads, at::Tensor& out);
void softmax(at::Tensor& scores, std::span<const int64_t> n_hidden);  // of each KV head

}  // namespace kvc::on_device
