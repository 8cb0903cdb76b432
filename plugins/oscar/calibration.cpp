#include "calibration.h"

#include <ATen/ATen.h>
#include <kvc/quant/rotation.h>

#include <algorithm>
#include <bit>
#include <vector>

namespace oscar {
namespace {

// The columns of x [D, D] in the order of P: bit-reversed, where 0 is the last one, of the largest eigenvalue.
at::Tensor in_reversed_order(const at::Tensor& x) {
  const int64_t d = x.size(1);
  const int n_bits = std::countr_zero(static_cast<uint64_t>(d));
  std::vector<int64_t> order;
  for (int64_t j = 0; j < d; ++j) {
    int64_t reversed = 0;
    for (int bit = 0; bit < n_bits; ++bit) reversed |= (j >> bit & 1) << (n_bits - 1 - bit);
    order.push_back(d - 1 - reversed);
  }
  return x.index_select(1, at::tensor(order));
}

// One layer's tokens of all pieces.
struct Seen {
  std::vector<at::Tensor> k, v;  // [H_kv, T, D] fp32 each
  at::Tensor queries;            // [H_kv, D, D] fp64: sums of q^T q
};

class Learner final : public kvc::Calibrator {
 public:
  explicit Learner(const kvc::ModelShape& model) : model_(model), seen_(static_cast<size_t>(model.n_layers)) {}

  void observe(const kvc::LayerInfo& info, const kvc::CalibrationTokens& tokens) override {
    KVC_CHECK(tokens.q.defined(), "oscar: the calibration has no queries at layer ", info.layer);
    auto& seen = seen_.at(static_cast<size_t>(info.layer));
    const auto q = tokens.q.to(at::kDouble).reshape({model_.n_kv_heads, -1, model_.head_dim});  // [H_kv, G*T, D]
    const auto squares = at::bmm(q.transpose(1, 2), q);
    seen.queries = seen.queries.defined() ? seen.queries.add_(squares) : squares;
    seen.k.push_back(tokens.k.clone()), seen.v.push_back(tokens.v.clone());
  }

  kvc::NamedTensors finish() override {
    std::vector<at::Tensor> k, v;
    for (auto& seen : seen_) {
      learn(seen, k, v);
      seen = {};
    }
    return {{"k.rotation", at::stack(k).to(at::kFloat)}, {"v.rotation", at::stack(v).to(at::kFloat)}};
  }

 private:
  void learn(const Seen& seen, std::vector<at::Tensor>& k_rotations, std::vector<at::Tensor>& v_rotations) const {
    int64_t n = 0;
    for (const auto& k : seen.k) n += k.size(1);
    KVC_CHECK(n >= model_.head_dim, "oscar: the texts have ", n, " tokens, expected ", model_.head_dim,
              " and more: as many as a head has channels");
    const auto k = at::cat(seen.k, 1).to(at::kDouble), v = at::cat(seen.v, 1).to(at::kDouble);
    const int64_t n_queries = n * model_.n_heads / model_.n_kv_heads;
    const auto of_queries = seen.queries / static_cast<double>(n_queries);
    auto weights = at::bmm(k, of_queries).mul_(k).sum(2, true);  // [H_kv, T, 1]
    weights = weights / weights.sum(1, true).clamp_min(1e-12);
    k_rotations.push_back(rotation_of(of_queries.mean(0)));
    v_rotations.push_back(rotation_of(at::bmm((v * weights).transpose(1, 2), v).mean(0)));
  }

  kvc::ModelShape model_;
  std::vector<Seen> seen_;  // by layer
};

}  // namespace

at::Tensor rotation_of(const at::Tensor& covariance) {
  const auto symmetric = (covariance + covariance.t()) / 2;
  KVC_CHECK(symmetric.isfinite().all().item<bool>(), "oscar: a covariance of the texts is not finite");
  auto vectors = std::get<1>(at::linalg_eigh(symmetric));  // in columns, eigenvalues ascending
  const auto largest = vectors.gather(0, vectors.abs().argmax(0, /*keepdim=*/true));
  vectors = vectors * largest.sign();
  return in_reversed_order(at::matmul(vectors, kvc::hadamard_matrix(covariance.size(0))));
}

std::unique_ptr<kvc::Calibrator> make_calibrator(const kvc::ModelShape& model) {
  return std::make_unique<Learner>(model);
}

at::Tensor rotations_from(const kvc::NamedTensors& tensors, const char* name, const kvc::ModelShape& model) {
  const auto found = tensors.find(name);
  KVC_CHECK(found != tensors.end(), "oscar: no tensor '", name, "'");
  const auto& x = found->second;
  const int64_t n = model.n_layers, d = model.head_dim;
  KVC_CHECK(x.scalar_type() == at::kFloat && x.sizes() == at::IntArrayRef({n, d, d}), "oscar: '", name, "' is ",
            x.sizes(), " ", x.scalar_type(), ", this model needs [", n, ", ", d, ", ", d, "] Float");
  const auto wide = x.to(at::kDouble);
  const double error = (at::bmm(wide.transpose(1, 2), wide) - at::eye(d, wide.options())).abs().amax().item<double>();
  KVC_CHECK(error < 1e-4, "oscar: '", name, "' is not a rotation: products of its rows differ from 1 and 0 by ", error,
            ", allowed: less than 1e-4");
  return x.contiguous();
}

}  // namespace oscar
