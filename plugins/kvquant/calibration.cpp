#include "calibration.h"

#include <ATen/ATen.h>
#include <kvc/quant/rope.h>

#include <cmath>
#include <string>

#include "codec.h"

namespace kvquant {
namespace {

// [H, T, D] -> [T, H*D]
at::Tensor merged(const at::Tensor& x) { return x.transpose(0, 1).flatten(1).contiguous(); }

std::string name_of(char tensor, const char* what, int64_t bits) { return kvc::concat(tensor, ".", what, ".", bits); }

// One layer's tokens of all pieces, [T, M] fp32 each.
struct Seen {
  std::vector<at::Tensor> k, v, k_weight, v_weight;
};

at::Tensor all_of(const std::vector<at::Tensor>& parts) { return parts.empty() ? at::Tensor() : at::cat(parts); }

class Learner final : public kvc::Calibrator {
 public:
  Learner(const kvc::ModelShape& model, double sparsity, int64_t first_tokens)
      : model_(model), sparsity_(sparsity), first_tokens_(first_tokens), seen_(static_cast<size_t>(model.n_layers)) {}

  void observe(const kvc::LayerInfo& info, const kvc::CalibrationTokens& tokens) override {
    const int64_t n = tokens.k.size(1) - first_tokens_;
    if (n <= 0) return;
    auto& seen = seen_.at(static_cast<size_t>(info.layer));
    const auto before_rope = [&](const at::Tensor& x) {
      return merged(kvc::turned(x.narrow(1, first_tokens_, n), first_tokens_, info.rope_frequencies, -1));
    };
    seen.k.push_back(before_rope(tokens.k));
    seen.v.push_back(merged(tokens.v.narrow(1, first_tokens_, n)));
    if (!tokens.k_gradient.defined()) return;
    seen.k_weight.push_back(before_rope(tokens.k_gradient).square());  // a rotation acts on gradients as on keys
    seen.v_weight.push_back(merged(tokens.v_gradient.narrow(1, first_tokens_, n)).square());
  }

  kvc::NamedTensors finish() override {
    std::map<std::string, std::vector<at::Tensor>> by_layer;
    for (size_t layer = 0; layer < seen_.size(); ++layer) {
      KVC_CHECK(!seen_[layer].k.empty(), "kvquant: the texts have no tokens after the first ", first_tokens_);
      learn(seen_[layer], by_layer);
      seen_[layer] = {};
    }
    kvc::NamedTensors tensors;
    for (const auto& [name, rows] : by_layer) tensors[name] = at::stack(rows);
    return tensors;
  }

 private:
  void learn(const Seen& seen, std::map<std::string, std::vector<at::Tensor>>& out) const {
    const auto k = all_of(seen.k), v = all_of(seen.v), by_channel = k.t().contiguous();
    const Format format{.sparsity = sparsity_, .precision = kvc::Precision::exact};
    const auto keys = range_of_rows(by_channel, format);
    const int64_t n_channels = by_channel.size(0), n_tokens = by_channel.size(1);
    auto smallest = at::empty({n_channels}), largest = at::empty({n_channels}), lower = smallest.clone(),
         upper = largest.clone();
    for (int64_t j = 0; j < n_channels; ++j) {
      const float low = keys.lower.const_data_ptr<float>()[j], high = keys.upper.const_data_ptr<float>()[j];
      const auto bounds = codec::bounds_between(by_channel.const_data_ptr<float>() + j * n_tokens, n_tokens, low, high);
      smallest.data_ptr<float>()[j] = bounds.smallest, largest.data_ptr<float>()[j] = bounds.largest;
      lower.data_ptr<float>()[j] = std::isfinite(low) ? low : bounds.smallest;  // no outliers: all that was seen
      upper.data_ptr<float>()[j] = std::isfinite(high) ? high : bounds.largest;
    }
    out["k.lower"].push_back(lower), out["k.upper"].push_back(upper);
    out["k.smallest"].push_back(smallest), out["k.largest"].push_back(largest);
    learn_levels('k', normalized_inside(k, keys, Axis::channels, format, all_of(seen.k_weight)), out);
    learn_levels('v', normalized_inside(v, range_of_rows(v, format), Axis::tokens, format, all_of(seen.v_weight)), out);
  }

  static void learn_levels(char tensor, const Normalized& x, std::map<std::string, std::vector<at::Tensor>>& out) {
    for (const int64_t bits : kAllBits) {
      const auto levels = centroids(x.z, bits, x.weights);
      const auto m = moments_of(x.z, levels);
      out[name_of(tensor, "levels", bits)].push_back(at::tensor(levels));
      out[name_of(tensor, "moments", bits)].push_back(
          at::tensor({m.mean, m.deviation, m.mean_quantized, m.deviation_quantized}, at::kFloat));
    }
  }

  kvc::ModelShape model_;
  double sparsity_;
  int64_t first_tokens_;
  std::vector<Seen> seen_;  // by layer
};

// The tensor of that name, [L, n] fp32.
at::Tensor find(const kvc::NamedTensors& tensors, const std::string& name, int64_t n_layers, int64_t n) {
  const auto found = tensors.find(name);
  KVC_CHECK(found != tensors.end(), "kvquant: no tensor '", name, "'");
  const auto& x = found->second;
  KVC_CHECK(x.scalar_type() == at::kFloat && x.dim() == 2 && x.size(0) == n_layers && x.size(1) == n, "kvquant: '",
            name, "' is ", x.sizes(), " ", x.scalar_type(), ", this model needs [", n_layers, ", ", n, "] Float");
  KVC_CHECK(x.isfinite().all().item<bool>(), "kvquant: '", name, "' has values that are not finite");
  return x.contiguous();
}

Levels levels_from(const kvc::NamedTensors& tensors, char tensor, int64_t layer, int64_t n_layers, const Format& format,
                   bool q_norm) {
  if (format.uniform) return {};
  const auto name = name_of(tensor, "levels", format.bits);
  const auto type = kvc::storage_type(format.precision);
  const auto row = find(tensors, name, n_layers, int64_t{1} << format.bits)[layer].to(type).to(at::kFloat);
  Levels levels;
  levels.encode.assign(row.const_data_ptr<float>(), row.const_data_ptr<float>() + row.numel());
  for (size_t i = 1; i < levels.encode.size(); ++i) {
    KVC_CHECK(levels.encode[i] >= levels.encode[i - 1], "kvquant: '", name, "' does not ascend at layer ", layer);
  }
  levels.decode = levels.encode;
  if (!q_norm) return levels;
  const auto moments = find(tensors, name_of(tensor, "moments", format.bits), n_layers, 4)[layer];
  const float* m = moments.const_data_ptr<float>();
  levels.decode = normalized(levels.encode, {m[0], m[1], m[2], m[3]});
  return levels;
}

}  // namespace

std::unique_ptr<kvc::Calibrator> make_calibrator(const kvc::ModelShape& model, double sparsity, int64_t first_tokens) {
  return std::make_unique<Learner>(model, sparsity, first_tokens);
}

std::vector<LayerTables> tables_from(const kvc::NamedTensors& tensors, const kvc::ModelShape& model,
                                     const Format& format, bool q_norm) {
  const int64_t n_layers = model.n_layers, n_channels = model.n_kv_heads * model.head_dim;
  const auto table = [&](const char* name) { return find(tensors, name, n_layers, n_channels); };
  const auto lower = table("k.lower"), upper = table("k.upper");
  const auto smallest = table("k.smallest"), largest = table("k.largest");
  KVC_CHECK(lower.le(upper).all().item<bool>() && smallest.le(largest).all().item<bool>(),
            "kvquant: a lower threshold is above its upper one");
  const auto stored = [&](const at::Tensor& x) {
    const auto y = x.to(kvc::storage_type(format.precision)).to(at::kFloat).contiguous();
    KVC_CHECK(y.isfinite().all().item<bool>(), "kvquant: a range is beyond fp16 (65504)");
    return y;
  };
  std::vector<LayerTables> layers;
  for (int64_t i = 0; i < n_layers; ++i) {
    const double steps = static_cast<double>((1 << format.bits) - 1);
    const auto zero = format.uniform ? smallest[i] : (lower[i] + upper[i]) / 2;
    const auto scale = format.uniform ? (largest[i] - smallest[i]) / steps : (upper[i] - lower[i]) / 2;
    Range keys{lower[i].clone(), upper[i].clone(), stored(zero), stored(scale)};
    if (format.uniform && format.sparsity == 0) keys = widened(keys, format);
    layers.push_back({keys, levels_from(tensors, 'k', i, n_layers, format, q_norm),
                      levels_from(tensors, 'v', i, n_layers, format, q_norm)});
  }
  return layers;
}

LayerTables LayerTables::on(at::Device device) const {
  const auto levels = [&](const Levels& here) -> Levels {
    if (here.encode.empty()) return {};
    return {{}, {}, at::tensor(here.encode).to(device), at::tensor(here.decode).to(device)};
  };
  return {{keys.lower.to(device), keys.upper.to(device), keys.zero.to(device), keys.scale.to(device)},
          levels(k_levels),
          levels(v_levels)};
}

}  // namespace kvquant
