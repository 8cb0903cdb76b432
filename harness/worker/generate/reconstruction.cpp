#include "generate/reconstruction.h"

#include <ATen/ATen.h>

#include <cmath>

#include "kernels/row_products.h"

namespace kvc {
namespace {

// Sum of (x - y)^2, or of x^2, in one order whatever the number of threads. x, y: the same shape, fp32
double sum_of_squares(const at::Tensor& x, const at::Tensor& y = {}) {
  const auto a = x.to(at::kCPU).contiguous();
  if (!y.defined()) return kernels::sum_of_squares(a.const_data_ptr<float>(), nullptr, a.numel());
  const auto b = y.to(at::kCPU).contiguous();
  return kernels::sum_of_squares(a.const_data_ptr<float>(), b.const_data_ptr<float>(), a.numel());
}

// held: [H_kv, T_kept, D] -> [H_kv, T, D], zeros where a head keeps nothing
at::Tensor spread(const at::Tensor& held, const at::Tensor& positions, int64_t n_tokens) {
  auto all = at::zeros({held.size(0), n_tokens + 1, held.size(2)}, held.options());
  const auto slot = positions.masked_fill(positions.lt(0), n_tokens);  // -1 goes to a slot that is cut off
  all.scatter_(1, slot.unsqueeze(2).expand_as(held), held);
  return all.narrow(1, 0, n_tokens);
}

}  // namespace

void Reconstruction::add(KeyValue held, const at::Tensor& positions, const KeyValue& given) {
  const int64_t n_tokens = given.k.size(1);
  const bool all_held = positions.size(1) == n_tokens && positions.ge(0).all().item<bool>();  // and in their order
  if (!all_held) {
    held = {spread(held.k, positions, n_tokens), spread(held.v, positions, n_tokens)};
  }
  k_squares_ += sum_of_squares(given.k);
  v_squares_ += sum_of_squares(given.v);
  k_error_squares_ += sum_of_squares(given.k, held.k);
  v_error_squares_ += sum_of_squares(given.v, held.v);
}

double Reconstruction::k_error() const { return k_squares_ > 0 ? std::sqrt(k_error_squares_ / k_squares_) : 0; }
double Reconstruction::v_error() const { return v_squares_ > 0 ? std::sqrt(v_error_squares_ / v_squares_) : 0; }

}  // namespace kvc
