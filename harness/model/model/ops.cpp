#include "model/ops.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "checkpoint/rope.h"
#include "kernels/block_products.h"
#include "kernels/row_products.h"
#include "kvc/check.h"
#include "model/portable_ops.h"
#include "model/quantized_linear.h"

namespace kvc {
namespace {

// Runs body(T*) with T the C++ type of `dtype`; body takes a typed null pointer.
template <class Body>
void for_dtype(at::ScalarType dtype, const Body& body) {
  switch (dtype) {
    case at::kFloat:
      return body(static_cast<float*>(nullptr));
    case at::kHalf:
      return body(static_cast<at::Half*>(nullptr));
    case at::kBFloat16:
      return body(static_cast<at::BFloat16*>(nullptr));
    default:
      throw Error(concat("model: type ", at::toString(dtype), ", supported: Float, Half, BFloat16"));
  }
}

// x, out: n values, which may be the same memory
template <class T>
void rms_norm_row(const T* x, const float* weight, int64_t n, double eps, T* out) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  const float inverse = static_cast<float>(1.0 / std::sqrt(sum / static_cast<double>(n) + eps));
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(weight[i] * (static_cast<float>(x[i]) * inverse));
}

// Rotates channels i and i + half of a head, half being R/2; `to` may be `from`.
template <class T>
void rotate_head(const T* from, const float* cos, const float* sin, int64_t half, int64_t head_dim, T* to) {
  if (to != from) std::copy(from + 2 * half, from + head_dim, to + 2 * half);
  for (int64_t i = 0; i < half; ++i) {
    const float a = from[i], b = from[i + half];
    to[i] = static_cast<T>(a * cos[i] - b * sin[i]);
    to[i + half] = static_cast<T>(b * cos[i] + a * sin[i]);
  }
}

constexpr int64_t kExpandedRows = 4096;  // of blocks, for a prompt's products: fixed, so that bits are
constexpr int64_t kLeastWork = 1 << 17;  // multiplications that are worth a thread's while

// x [B, K] -> [B, K rounded up to whole blocks] fp32, as products with weights of W read it
template <class W>
at::Tensor interleaved(const at::Tensor& x) {
  const int64_t n_rows = x.size(0), k = x.size(1);
  constexpr int64_t kBlock = kernels::block_size<W>();
  const int64_t k_padded = (k + kBlock - 1) / kBlock * kBlock;
  const auto wide = x.to(at::kFloat).contiguous();
  auto rows = at::empty({n_rows, k_padded}, at::kFloat);
  for (int64_t r = 0; r < n_rows; ++r) {
    kernels::interleave(wide.const_data_ptr<float>() + r * k, k, kBlock, rows.mutable_data_ptr<float>() + r * k_padded);
  }
  return rows;
}

// Entries of a matrix's rows that are worth a thread's while.
int64_t least_rows(int64_t n_rows, int64_t k) { return std::max<int64_t>(4, kLeastWork / (n_rows * k)); }

// x [B, K] -> [B, N] fp32, without bias
template <class W>
at::Tensor multiply(const at::Tensor& x, const at::Tensor& weight) {
  const int64_t n_rows = x.size(0), k = x.size(1), n = weight.size(0);
  const at::Tensor rows = interleaved<W>(x);
  auto y = at::zeros({n_rows, n}, at::kFloat);
  const float* in = rows.const_data_ptr<float>();
  float* out = y.mutable_data_ptr<float>();
  const auto* w = static_cast<const W*>(weight.const_data_ptr());
  at::parallel_for(0, n, least_rows(n_rows, k),
                   [&](int64_t first, int64_t end) { kernels::multiply_rows(in, n_rows, k, w, first, end, out, n); });
  return y;
}

// The same for blocks.
at::Tensor multiply_blocks(const at::Tensor& x, const Linear& w) {
  const int64_t n_rows = x.size(0), k = x.size(1), n = n_rows_of(w);
  const auto rows = x.to(at::kFloat).contiguous();
  auto y = at::zeros({n_rows, n}, at::kFloat);
  const float* in = rows.const_data_ptr<float>();
  float* out = y.mutable_data_ptr<float>();
  for (const auto& run : w.blocks) {
    const auto* bytes = run.bytes.const_data_ptr<uint8_t>();
    at::parallel_for(0, run.bytes.size(0), least_rows(n_rows, k), [&](int64_t first, int64_t end) {
      kernels::multiply_blocks(run.type, in, n_rows, k, bytes, first, end, out, n);
    });
    out += run.bytes.size(0);
  }
  return y;
}

// The same for codes with scales of groups, or two in a byte: a few rows of the matrix are floats at a time.
at::Tensor multiply_codes(const at::Tensor& x, const Linear& w) {
  constexpr int64_t kTile = 16;  // rows; any multiple of 4 gives the same bits
  const int64_t n_rows = x.size(0), k = x.size(1), n = n_rows_of(w);
  const auto rows = interleaved<float>(x);
  auto y = at::zeros({n_rows, n}, at::kFloat);
  const float* in = rows.const_data_ptr<float>();
  float* out = y.mutable_data_ptr<float>();
  at::parallel_for(0, (n + kTile - 1) / kTile, std::max<int64_t>(1, kLeastWork / (n_rows * k * kTile)),
                   [&](int64_t first, int64_t end) {
                     std::vector<float> tile(static_cast<size_t>(kTile * k));
                     for (int64_t row = first * kTile; row < std::min(n, end * kTile); row += kTile) {
                       const int64_t n_tile = std::min(kTile, n - row);
                       expand_rows(w, row, n_tile, tile.data());
                       kernels::multiply_rows<float>(in, n_rows, k, tile.data(), 0, n_tile, out + row, n);
                     }
                   });
  return y;
}

// x [B, K] -> [B, N] fp32, without bias
at::Tensor multiply_weight(const at::Tensor& x, const Linear& w) {
  const bool has_groups = w.scale.defined() && w.scale.dim() == 2;
  switch (has_groups ? at::kByte : w.weight.scalar_type()) {
    case at::kFloat:
      return multiply<float>(x, w.weight);
    case at::kHalf:
      return multiply<kernels::Fp16>(x, w.weight);
    case at::kBFloat16:
      return multiply<kernels::Bf16>(x, w.weight);
    case at::kChar:
      return multiply<int8_t>(x, w.weight).mul_(w.scale);
    case at::kByte:
      return multiply_codes(x, w);
    default:
      throw Error(concat("model: weights of type ", at::toString(w.weight.scalar_type()),
                         ", supported: Float, Half, BFloat16, Char, Byte"));
  }
}

// rows [M, K] -> out [M, N], as one product of LibTorch's
void multiply_at_once(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias, at::Tensor out) {
  bias.defined() ? at::addmm_out(out, bias, rows, weight.t()) : at::mm_out(out, rows, weight.t());
}

void multiply_by_buckets(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias, at::Tensor out) {
  for (int64_t row = 0; row < rows.size(0); row += kRowBucket) {
    multiply_at_once(rows.narrow(0, row, kRowBucket), weight, bias, out.narrow(0, row, kRowBucket));
  }
}

// Whether a product of many rows has the bits that buckets have, which no library promises and most machines do: known
// of each shape by the first one, which is computed both ways.
class WideProducts {
 public:
  void multiply(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias, at::Tensor out) {
    const Shape shape{rows.size(0),   weight.size(0),       weight.size(1), static_cast<int64_t>(weight.scalar_type()),
                      bias.defined(), at::get_num_threads()};
    const auto same = known(shape);
    if (same.value_or(false)) return multiply_at_once(rows, weight, bias, out);
    multiply_by_buckets(rows, weight, bias, out);
    if (same) return;
    auto wide = at::empty(out.sizes(), out.options());
    multiply_at_once(rows, weight, bias, wide);
    const std::lock_guard lock(mutex_);
    same_[shape] = wide.equal(out);
  }

 private:
  using Shape = std::array<int64_t, 6>;

  std::optional<bool> known(const Shape& shape) {
    const std::lock_guard lock(mutex_);
    const auto found = same_.find(shape);
    return found == same_.end() ? std::nullopt : std::optional(found->second);
  }

  std::mutex mutex_;
  std::map<Shape, bool> same_;
};

// rows: kRowRun of them, or less by whole buckets, which go alone
void multiply_run(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias, at::Tensor out) {
  static WideProducts wide;
  if (rows.size(0) < kRowRun || !rows.is_cpu()) return multiply_by_buckets(rows, weight, bias, out);
  wide.multiply(rows, weight, bias, out);
}

// body(x, n): runs of the entries of a contiguous fp32 tensor, over all threads
template <class Body>
void for_entries_(at::Tensor& x, const Body& body) {
  float* values = x.mutable_data_ptr<float>();
  at::parallel_for(0, x.numel(), 1 << 14, [&](int64_t first, int64_t end) { body(values + first, end - first); });
}

}  // namespace

bool is_defined(const Linear& w) { return w.weight.defined() || !w.blocks.empty(); }

int64_t n_rows_of(const Linear& w) {
  if (w.blocks.empty()) return w.weight.size(0);
  int64_t n = 0;
  for (const auto& run : w.blocks) n += run.bytes.size(0);
  return n;
}

int64_t n_columns_of(const Linear& w) { return w.n_columns > 0 ? w.n_columns : w.weight.size(1); }

at::Device device_of(const Linear& w) { return w.blocks.empty() ? w.weight.device() : at::Device(at::kCPU); }

// LibTorch's operators in the order of the reference implementation (fp32, then the model's type, then the weight): a
// sum in another order is as right, but a model with sharp attention makes 1e-4 of its last bit.
at::Tensor normalize(const at::Tensor& x, const Norm& norm, double eps) {
  const auto wide = x.to(at::kFloat);
  if (norm.bias.defined()) return at::layer_norm(wide, {x.size(1)}, norm.weight, norm.bias, eps).to(x.scalar_type());
  const auto inverse = wide.square().mean(-1, true).add_(eps).rsqrt_();  // [rows, 1]
  if (norm.wide) return (norm.weight * (wide * inverse)).to(x.scalar_type());
  return (norm.weight * (wide * inverse).to(x.scalar_type())).to(x.scalar_type());
}

void normalize_heads_(at::Tensor& merged, int64_t first_head, int64_t n_heads, const at::Tensor& weight, double eps) {
  if (!merged.is_cpu()) return portable::normalize_heads_(merged, first_head, n_heads, weight, eps);
  const int64_t n_tokens = merged.size(0), width = merged.size(1), head_dim = weight.size(0);
  for_dtype(merged.scalar_type(), [&]<class T>(T*) {
    T* rows = merged.mutable_data_ptr<T>();
    for (int64_t t = 0; t < n_tokens; ++t) {
      for (int64_t h = first_head; h < first_head + n_heads; ++h) {
        T* head = rows + t * width + h * head_dim;
        rms_norm_row(head, weight.const_data_ptr<float>(), head_dim, eps, head);
      }
    }
  });
}

at::Tensor linear_buckets(const at::Tensor& x, const Linear& w) {
  KVC_CHECK(x.size(0) % kRowBucket == 0, "linear_buckets: ", x.size(0), " rows, expected a multiple of ", kRowBucket);
  const int64_t n = n_rows_of(w), tile = w.blocks.empty() ? n : kExpandedRows;
  auto y = at::empty({x.size(0), n}, x.options());
  for (int64_t first = 0; first < n; first += tile) {
    const int64_t n_tile = std::min(tile, n - first);
    const auto weight = w.blocks.empty() ? w.weight : expanded_rows(w, first, n_tile, x.scalar_type());
    const auto bias = w.bias.defined() ? w.bias.narrow(0, first, n_tile) : w.bias;
    for (int64_t row = 0; row < x.size(0); row += kRowRun) {
      const int64_t n_rows = std::min(kRowRun, x.size(0) - row);
      multiply_run(x.narrow(0, row, n_rows), weight, bias, y.narrow(0, row, n_rows).narrow(1, first, n_tile));
    }
  }
  return y;
}

at::Tensor linear_rows(const at::Tensor& x, const Linear& w) {
  if (!x.is_cpu()) return portable::linear_rows(x, w);
  auto y = w.blocks.empty() ? multiply_weight(x, w) : multiply_blocks(x, w);
  if (w.bias.defined()) y.add_(w.bias);
  return y.to(x.scalar_type());
}

void split_heads_(const at::Tensor& merged, int64_t first_head, const RopeTable& rope, int64_t first_token,
                  at::Tensor& out) {
  if (!merged.is_cpu()) return portable::split_heads_(merged, first_head, rope, first_token, out);
  const int64_t n_tokens = merged.size(0), width = merged.size(1);
  const int64_t n_heads = out.size(0), n_out_tokens = out.size(1), head_dim = out.size(2);
  const int64_t half = rope.cos.defined() ? rope.cos.size(1) : 0;
  const float* cos = rope.cos.defined() ? rope.cos.const_data_ptr<float>() : nullptr;
  const float* sin = rope.cos.defined() ? rope.sin.const_data_ptr<float>() : nullptr;
  for_dtype(merged.scalar_type(), [&]<class T>(T*) {
    const T* in = merged.const_data_ptr<T>();
    T* result = out.mutable_data_ptr<T>();
    for (int64_t t = 0; t < n_tokens; ++t) {
      for (int64_t h = 0; h < n_heads; ++h) {
        const T* from = in + t * width + (first_head + h) * head_dim;
        T* to = result + (h * n_out_tokens + first_token + t) * head_dim;
        if (cos) {
          rotate_head(from, cos + t * half, sin + t * half, half, head_dim, to);
        } else {
          std::copy(from, from + head_dim, to);
        }
      }
    }
  });
}

void rotate_heads_(at::Tensor& merged, int64_t n_heads, int64_t head_dim, const RopeTable& rope) {
  if (!rope.cos.defined()) return;
  if (!merged.is_cpu()) return portable::rotate_heads_(merged, n_heads, head_dim, rope);
  const int64_t n_tokens = merged.size(0), width = merged.size(1), half = rope.cos.size(1);
  const float *cos = rope.cos.const_data_ptr<float>(), *sin = rope.sin.const_data_ptr<float>();
  for_dtype(merged.scalar_type(), [&]<class T>(T*) {
    T* rows = merged.mutable_data_ptr<T>();
    for (int64_t t = 0; t < n_tokens; ++t) {
      for (int64_t h = 0; h < n_heads; ++h) {
        T* head = rows + t * width + h * head_dim;
        rotate_head(head, cos + t * half, sin + t * half, half, head_dim, head);
      }
    }
  });
}

// LibTorch's silu would take another exp for the entries behind the last whole vector, wherever that ends.
at::Tensor gated(const at::Tensor& gate_up, Activation activation) {
  if (!gate_up.is_cpu()) return portable::gated(gate_up, activation);
  const auto halves = gate_up.chunk(2, 1);
  auto gate = at::empty(halves[0].sizes(), at::kFloat).copy_(halves[0]);
  for_entries_(gate, [&](float* x, int64_t n) {
    activation == Activation::gelu_tanh ? kernels::gelu_tanh(x, n) : kernels::silu(x, n);
  });
  return gate.to(gate_up.scalar_type()).mul_(halves[1]);
}

at::Tensor clamped_gated(const at::Tensor& gate_up, double alpha, double limit) {
  const auto halves = gate_up.chunk(2, 1);
  auto gate = halves[0].to(at::kFloat).clamp_max(limit).contiguous();
  if (gate.is_cpu()) {
    for_entries_(gate, [&](float* x, int64_t n) { kernels::silu(x, n, static_cast<float>(alpha)); });
  } else {
    gate.mul_((gate * alpha).sigmoid());
  }
  return gate.mul_(halves[1].to(at::kFloat).clamp(-limit, limit).add_(1)).to(gate_up.scalar_type());
}

at::Tensor embedding_rows(const at::Tensor& table, std::span<const int64_t> ids, int64_t n_rows) {
  if (!table.is_cpu()) return portable::embedding_rows(table, ids, n_rows);
  auto rows = at::zeros({n_rows, table.size(1)}, table.options());
  const size_t row_bytes = static_cast<size_t>(table.size(1)) * table.element_size();
  for (size_t t = 0; t < ids.size(); ++t) {
    std::memcpy(static_cast<char*>(rows.mutable_data_ptr()) + t * row_bytes,
                static_cast<const char*>(table.const_data_ptr()) + static_cast<size_t>(ids[t]) * row_bytes, row_bytes);
  }
  return rows;
}

at::Tensor embedding_rows(const Linear& table, std::span<const int64_t> ids, int64_t n_rows, at::ScalarType type) {
  if (table.blocks.empty()) return embedding_rows(table.weight, ids, n_rows);
  const int64_t width = n_columns_of(table);
  auto rows = at::zeros({n_rows, width}, at::kFloat);
  for (size_t t = 0; t < ids.size(); ++t) {
    expand_rows(table, ids[t], 1, rows.mutable_data_ptr<float>() + static_cast<int64_t>(t) * width);
  }
  return rows.to(type);
}

}  // namespace kvc
