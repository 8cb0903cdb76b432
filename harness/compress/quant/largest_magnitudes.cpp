#include "kvc/quant/largest_magnitudes.h"

#include <ATen/ATen.h>

#include <string>

#include "kvc/check.h"
#include "kvc/quant/small_floats.h"

namespace kvc {
namespace {

class Learner final : public Calibrator {
 public:
  explicit Learner(const ModelShape& model)
      : k_(at::zeros({model.n_layers, model.n_kv_heads}, at::kFloat)), v_(at::zeros_like(k_)) {}

  void observe(const LayerInfo& info, const CalibrationTokens& tokens) override {
    widen(k_[info.layer], tokens.k);
    widen(v_[info.layer], tokens.v);
  }
  NamedTensors finish() override { return {{"k.largest", k_}, {"v.largest", v_}}; }

 private:
  // of_layer [H_kv], x [H_kv, T, D]
  static void widen(const at::Tensor& of_layer, const at::Tensor& x) {
    of_layer.copy_(at::maximum(of_layer, largest_of_heads(x).flatten()));
  }

  at::Tensor k_, v_;
};

at::Tensor find(const char* method, const ModelShape& model, const NamedTensors& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  KVC_CHECK(found != tensors.end(), method, ": the calibration has no tensor '", name, "'");
  const auto& x = found->second;
  KVC_CHECK(x.scalar_type() == at::kFloat && x.sizes() == at::IntArrayRef({model.n_layers, model.n_kv_heads}), method,
            ": ", name, " is ", x.sizes(), " ", x.scalar_type(), ", this model needs [", model.n_layers, ", ",
            model.n_kv_heads, "] Float");
  KVC_CHECK(x.isfinite().logical_and_(x.ge(0)).all().item<bool>(), method, ": ", name,
            " has values that are negative or not finite");
  return x.contiguous();
}

}  // namespace

std::unique_ptr<Calibrator> learn_largest_magnitudes(const ModelShape& model) {
  return std::make_unique<Learner>(model);
}

LargestMagnitudes largest_magnitudes(const char* method, const ModelShape& model, const NamedTensors& tensors) {
  return {find(method, model, tensors, "k.largest"), find(method, model, tensors, "v.largest")};
}

}  // namespace kvc
