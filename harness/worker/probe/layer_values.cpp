#include "probe/layer_values.h"

#include <ATen/ATen.h>

namespace kvc {
namespace {

// values: of each head, the last of all.
void add_heads(const std::string& measure, int64_t layer, const std::string& tensor, const std::vector<double>& values,
               ProbeValues& out) {
  const auto n_heads = static_cast<int64_t>(values.size()) - 1;
  for (int64_t h = 0; h <= n_heads; ++h) {
    out.add({measure, layer, h < n_heads ? h : -1, tensor, -1, values[static_cast<size_t>(h)]});
  }
}

void add_steps(const std::string& measure, int64_t layer, int64_t head, const std::string& tensor,
               const std::vector<double>& values, ProbeValues& out) {
  for (size_t i = 0; i < values.size(); ++i) {
    out.add({measure, layer, head, tensor, static_cast<int64_t>(i), values[i]});
  }
}

void add_errors(int64_t layer, const std::string& tensor, const at::Tensor& exact, const at::Tensor& held,
                const std::string& suffix, ProbeValues& out) {
  const auto errors = frobenius_errors(exact, held);
  add_heads("rel_fro" + suffix, layer, tensor, errors.relative, out);
  add_heads("abs_fro" + suffix, layer, tensor, errors.absolute, out);
}

void add_spectra(int64_t layer, const std::string& tensor, const at::Tensor& exact, const at::Tensor& held,
                 ProbeValues& out) {
  const auto residual = exact.to(at::kCPU, at::kDouble) - held;
  for (int64_t h = 0; h < exact.size(0); ++h) {
    add_steps("sigma", layer, h, tensor, singular_values(exact[h]), out);
    add_steps("sigma", layer, h, tensor + "_residual", singular_values(residual[h]), out);
  }
}

void add_quartiles(int64_t layer, const std::string& tensor, const at::Tensor& values, ProbeValues& out) {
  const auto q = quartiles(values);
  out.add({"min", layer, -1, tensor, -1, q.min});
  out.add({"q1", layer, -1, tensor, -1, q.q1});
  out.add({"median", layer, -1, tensor, -1, q.median});
  out.add({"q3", layer, -1, tensor, -1, q.q3});
  out.add({"max", layer, -1, tensor, -1, q.max});
}

const std::vector<std::string> kQuartiles{"min", "q1", "median", "q3", "max"};

void add_part(int64_t layer, const std::string& name, const at::Tensor& part, ProbeValues& out) {
  if (part.scalar_type() != at::kBool) {
    if (out.wants_any(kQuartiles)) add_quartiles(layer, name, part, out);
    return;
  }
  if (!out.wants_any({"lambda1", "lambda2"})) return;
  const auto sigma = singular_values(part);
  out.add({"lambda1", layer, -1, name, -1, sigma[0]});
  out.add({"lambda2", layer, -1, name, -1, sigma.size() > 1 ? sigma[1] : 0});
}

void add_tensor_values(int64_t layer, const std::string& tensor, const at::Tensor& exact, const at::Tensor& held,
                       ProbeValues& out) {
  if (out.wants_any({"rel_fro", "abs_fro"})) add_errors(layer, tensor, exact, held, "", out);
  if (out.wants("sigma")) add_spectra(layer, tensor, exact, held, out);
  if (out.wants_any(kQuartiles)) add_quartiles(layer, tensor, exact, out);
  if (out.wants("channel_mean_abs")) {
    add_steps("channel_mean_abs", layer, -1, tensor, channel_mean_abs(exact), out);
  }
}

}  // namespace

void ProbeOutput::keep(const std::string& name, const at::Tensor& tensor) {
  if (dumps) dump[name] = tensor.scalar_type() == at::kBool ? tensor.cpu().to(at::kByte) : tensor.cpu().clone();
}

void add_layer_values(const at::Tensor& q, const KeyValue& exact, const LookedAt& looked_at, const LayerInfo& info,
                      ProbeOutput& out) {
  const int64_t layer = info.layer;
  const auto& held = looked_at.held;
  add_tensor_values(layer, "k", exact.k, held.k, out.values);
  add_tensor_values(layer, "v", exact.v, held.v, out.values);
  if (out.values.wants_any({"score_rel_sq", "output_rel_fro"})) {
    const auto errors = attention_errors(q, exact, looked_at.attended, info);
    add_heads("score_rel_sq", layer, "scores", errors.scores, out.values);
    add_heads("output_rel_fro", layer, "output", errors.output, out.values);
    out.keep(concat("layer.", layer, ".k_attended"), looked_at.attended.k);
    out.keep(concat("layer.", layer, ".v_attended"), looked_at.attended.v);
  }
  const auto name = [layer](const std::string& tensor) { return concat("layer.", layer, ".", tensor); };
  for (const auto& [part, values] : looked_at.parts) {
    add_part(layer, part, values, out.values);
    out.keep(name("part." + part), values);
  }
  out.keep(name("q"), q);
  out.keep(name("k"), exact.k);
  out.keep(name("v"), exact.v);
  out.keep(name("k_held"), held.k);
  out.keep(name("v_held"), held.v);
  out.keep(name("kept"), held.kept);
}

void add_end_values(int64_t layer, const KeyValue& given, const HeldTokens& held, ProbeOutput& out) {
  add_errors(layer, "k", given.k, held.k, "_end", out.values);
  add_errors(layer, "v", given.v, held.v, "_end", out.values);
  const auto name = [layer](const std::string& tensor) { return concat("layer.", layer, ".", tensor); };
  out.keep(name("k_end"), given.k);
  out.keep(name("v_end"), given.v);
  out.keep(name("k_held_end"), held.k);
  out.keep(name("v_held_end"), held.v);
}

}  // namespace kvc
