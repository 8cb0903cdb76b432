#include "model/smooth_quant.h"

#include <ATen/ATen.h>

#include "kvc/check.h"
#include "model/transformer.h"

namespace kvc {

InputMaxima measure_input_maxima(const Transformer& model, const std::vector<std::vector<int64_t>>& prompts) {
  const auto n_layers = static_cast<size_t>(model.config().n_layers);
  const auto zeros = at::zeros({model.config().hidden_size}, at::kFloat);
  InputMaxima maxima;
  for (size_t layer = 0; layer < n_layers; ++layer) {
    maxima.qkv.push_back(zeros.clone());
    maxima.up.push_back(zeros.clone());
  }
  const auto on_input = [&](int64_t layer, Transformer::Reader reader, const at::Tensor& x) {
    auto& all = reader == Transformer::Reader::qkv ? maxima.qkv : maxima.up;
    auto& seen = all[static_cast<size_t>(layer)];
    seen = at::maximum(seen, x.to(at::kCPU, at::kFloat).abs().amax(0));
  };
  for (const auto& prompt : prompts) model.observe_inputs(prompt, on_input);
  return maxima;
}

void smooth_(Norm& norm, Linear& w, const at::Tensor& input_max, double alpha) {
  constexpr double kLeast = 1e-5;
  const auto wide = w.weight.to(at::kFloat);
  const auto weight_max = wide.abs().amax(0).clamp_min_(kLeast);  // [K]
  const auto x_max = input_max.to(wide.device(), at::kFloat);
  KVC_CHECK(x_max.sizes() == weight_max.sizes(), "smooth_quant: maxima of ", x_max.size(0),
            " channels for a matrix of ", weight_max.size(0));
  const auto s = x_max.pow(alpha).div_(weight_max.pow(1 - alpha)).clamp_min_(kLeast);
  w.weight = wide.mul(s).to(w.weight.scalar_type());
  norm.weight = norm.weight.div(s);
  if (norm.bias.defined()) norm.bias = norm.bias.div(s);
}

}  // namespace kvc
