#include "factors.h"

#include <ATen/ATen.h>

namespace decoquant {

Factors balanced(const at::Tensor& x) {
  if (x.size(0) < x.size(1)) {
    const auto transposed = balanced(x.t());
    return {transposed.b.t(), transposed.a.t(), transposed.spectrum};
  }
  const auto [squares, v] = at::linalg_eigh(at::matmul(x.t(), x));  // ascending
  auto spectrum = squares.clamp_min(0).sqrt().flip(0);
  spectrum = at::maximum(spectrum, spectrum[0].to(at::kDouble).mul(1e-8).to(spectrum.scalar_type()));
  const auto root = spectrum.sqrt(), vectors = v.flip(1);
  const auto inverse = root.reciprocal().masked_fill(root == 0, 0);
  return {at::matmul(x, vectors) * inverse, root.unsqueeze(1) * vectors.t(), spectrum};
}

Factors qr_factors(const at::Tensor& x) {
  const auto [q, r] = at::linalg_qr(x, "reduced");
  return {q, r, {}};
}

std::vector<at::Tensor> chain(const Factors& first, const std::vector<int64_t>& factors) {
  std::vector<at::Tensor> tensors;
  Factors bond = first;
  for (size_t i = 0; i + 1 < factors.size(); ++i) {
    const int64_t r = bond.b.size(0), columns = bond.b.size(1) / factors[i];
    const auto root = bond.spectrum.sqrt().unsqueeze(1);  // [r, 1]
    const auto rest = (root * bond.b).reshape({r * factors[i], columns});
    auto next = balanced(rest);
    const auto left = next.a.reshape({r, factors[i] * next.a.size(1)});
    tensors.push_back((left / root).masked_fill(root == 0, 0).view({r, factors[i], next.a.size(1)}));
    bond = std::move(next);
  }
  tensors.push_back(bond.b.unsqueeze(2));
  return tensors;
}

at::Tensor multiplied(const std::vector<at::Tensor>& chain) {
  auto product = chain.back().to(at::kFloat).squeeze(2);  // [r, f]
  for (size_t i = chain.size() - 1; i-- > 0;) {
    const auto left = chain[i].to(at::kFloat);  // [r, f, r']
    product = at::matmul(left.flatten(0, 1), product).view({left.size(0), left.size(1) * product.size(1)});
  }
  return product;
}

}  // namespace decoquant
