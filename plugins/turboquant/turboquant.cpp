// TurboQuant: each vector is turned by a random rotation, after which its coordinates are nearly independent and
// normal, and quantized coordinate by coordinate with the optimal scalar quantizer of that distribution; its norm is
// kept. The inner-product variant gives K one bit less and a 1-bit sketch of the error, which makes scores unbiased.
// Nothing waits. Bytes per layer: H_kv*T * (4*ceil(D*b/32) + 2) for V, and for K, too; inner product: for K
//   H_kv*T * (4*ceil(D*(b-1)/32) + 2 + 4*ceil(D/32) + 2).   precision exact: 4 bytes a norm.
// Rotation, sketch and levels are constants of the method and no cache's.
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/compressed_attention.h>
#include <kvc/quant/projection.h>
#include <kvc/shared.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include "lloyd_max.h"
#include "rotated_codes.h"

namespace {

struct TurboquantOptions {
  int64_t bits = 4;
  std::string keys = "mse";
  int64_t seed = 0;
  std::string precision = "real";
  void visit(kvc::OptionVisitor& v) {
    v.integer_of("bits", bits, {1, 2, 3, 4}, "bits a coordinate");
    v.choice("keys", keys, {"mse", "inner_product"}, "all bits of K for its codes, or one for a sketch of the error");
    v.integer("seed", seed, 0, kvc::kNoUpperLimit, "seed of rotation and sketch");
    v.choice("precision", precision, {"real", "exact"}, "norms in fp16, or fp32");
  }
};

struct ModelTables {
  turboquant::Tables k, v;
};

class TurboquantCache final : public kvc::LayerCache {
 public:
  TurboquantCache(const kvc::LayerInfo& info, const ModelTables& tables, kvc::Precision precision)
      : LayerCache(info), tables_(tables), precision_(precision) {}

  void append(const kvc::NewTokens& tokens) override {
    check_new_tokens(tokens);
    if (info().holds_k()) k_.push_back(tokens.k.to(at::kFloat).contiguous(), tables_.k, precision_);
    if (info().holds_v()) v_.push_back(tokens.v.to(at::kFloat).contiguous(), tables_.v, precision_);
  }

  at::Tensor attend(const at::Tensor& q, double scale) const override {
    if (!kvc::CompressedAttention::takes(q)) return LayerCache::attend(q, scale);
    // In the rotated basis: the query is turned once, and what comes out is turned back.
    const auto query = q.to(at::kFloat).contiguous();
    kvc::CompressedAttention attention(turboquant::turned(query, tables_.k), scale, info(), length());
    k_.for_each_block(tables_.k, [&](const kvc::LevelCodes& x, int64_t first) { attention.score(x, first); });
    if (tables_.k.sketch.defined()) {
      attention.add_scores(k_.sketched_scores(query.squeeze(1) * scale, tables_.k), 0);
    }
    attention.softmax();
    v_.for_each_block(tables_.v, [&](const kvc::LevelCodes& x, int64_t first) { attention.weigh(x, first); });
    return turboquant::turned_back(attention.out(), tables_.v);
  }

  kvc::KeyValue dequantize() const override { return {k_.dequantize(tables_.k), v_.dequantize(tables_.v)}; }
  kvc::KeyValue attended() const override { return {k_.attended(tables_.k), v_.attended(tables_.v)}; }
  int64_t length() const override { return std::max(k_.n_tokens(), v_.n_tokens()); }
  int64_t n_encoded_tokens() const override { return length(); }

  kvc::Footprint footprint() const override {
    kvc::Footprint bytes;
    k_.add_to(bytes, kvc::CacheTensor::k);
    v_.add_to(bytes, kvc::CacheTensor::v);
    return bytes;
  }

 private:
  const ModelTables& tables_;
  kvc::Precision precision_;
  turboquant::RotatedCodes k_, v_;
};

class Turboquant final : public kvc::Compressor {
 public:
  explicit Turboquant(const TurboquantOptions& options)
      : options_(options), precision_(kvc::precision_named(options.precision)) {
    KVC_CHECK(options.keys == "mse" || options.bits > 1, "turboquant: keys inner_product at 1 bit, allowed: 2, 3, 4");
  }

  void check_model(const kvc::ModelShape& model) const override {
    KVC_CHECK(model.head_dim >= 3, "turboquant: head_dim ", model.head_dim, ", allowed: 3 and more");
  }

  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<TurboquantCache>(info, tables_for(info.head_dim, info.device), precision_);
  }

  double bits() const override { return static_cast<double>(options_.bits); }

  // b bits a coordinate; the paper counts no norms.
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    return bits() / 16 * kvc::fp16_bytes(model, n_prompt_tokens + n_new_tokens);
  }

 private:
  turboquant::Tables tables(int64_t bits, int64_t head_dim, at::Device device) const {
    const auto quantizer = turboquant::lloyd_max(bits, head_dim);
    const auto seed = static_cast<uint64_t>(options_.seed);
    turboquant::Tables tables;
    tables.rotation = projections_.matrix(kvc::ProjectionKind::orthogonal, seed, head_dim, head_dim, device);
    tables.levels.assign(quantizer.levels.begin(), quantizer.levels.end());
    for (size_t i = 0; i + 1 < tables.levels.size(); ++i) {
      tables.middles.push_back((tables.levels[i] + tables.levels[i + 1]) / 2);
    }
    tables.bits = bits;
    return tables;
  }

  // Made once for each head_dim and device; what they are depends on nothing else.
  const ModelTables& tables_for(int64_t head_dim, at::Device device) const {
    const kvc::Shared shared;
    const std::lock_guard lock(mutex_);
    const std::tuple key{head_dim, device.type(), device.index()};
    const auto found = made_.find(key);
    if (found != made_.end()) return found->second;
    const bool sketched = options_.keys == "inner_product";
    ModelTables made{.k = tables(options_.bits - (sketched ? 1 : 0), head_dim, device),
                     .v = tables(options_.bits, head_dim, device)};
    if (sketched) {
      made.k.sketch = projections_.matrix(kvc::ProjectionKind::gaussian, static_cast<uint64_t>(options_.seed) + 1,
                                          head_dim, head_dim, device);
    }
    return made_.emplace(key, std::move(made)).first->second;
  }

  TurboquantOptions options_;
  kvc::Precision precision_;
  kvc::Projections projections_;
  mutable std::mutex mutex_;
  mutable std::map<std::tuple<int64_t, at::DeviceType, at::DeviceIndex>, ModelTables> made_;
};

}  // namespace

KVC_PLUGIN(
    TurboquantOptions, Turboquant, "turboquant", "random rotation, optimal scalar codes, norms",
    "Zandieh et al. 2025 (TurboQuant, arXiv 2504.19874), algorithms 1 and 2",
    "no outlier channels at more bits (the paper's 2.5 and 3.5 bits); the sketch serves keys only, values use the "
    "variant of least error; one rotation for all layers and sequences; of sketched keys dequantize() gives, "
    "for probes only, the least-squares K, which no score is computed from",
    {.one_by_one_same = true, .prefix_local = true, .estimates = true, .splits = true, .formula = "TurboQuant"})
