// TurboQuant: each vector is rotated by a random rotation, after which its coordinates are nearly independent and
// normal, and quantized coordinate by coordinate with the optimal scalar quantizer of that distribution; its norm is
// kept. The inner-product variant gives K one bit less and a 1-bit sketch of the error, which makes scores unbiased.
// Nothing waits. Bytes per layer: H_kv*T * (4*ceil(D*b/32) + 2) for V, and for K, too; inner product: for K
//   H_kv*T * (4*ceil(D*(b-1)/32) + 2 + 4*ceil(D/32) + 2).   precision exact: 4 bytes a norm.
// Rotation, sketch and levels are constants of the method and no cache's.
// A preset of vLLM's (presets.h) for each KV head and token instead: K 4*ceil(D*b/32) + 2, or D as 8-bit floats;
// V 4*ceil(D*b/32) + 4. Protected layers: 4*D. precision exact: 4 bytes where 2 stand.
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/projection.h>
#include <kvc/quant/tensor_pair_cache.h>
#include <kvc/shared.h>

#include <bit>
#include <map>
#include <mutex>
#include <tuple>

#include "lloyd_max.h"
#include "presets.h"
#include "rotated_codes.h"

namespace {

struct TurboquantOptions {
  int64_t bits = 4;
  std::string keys = "mse";
  int64_t seed = 0;
  std::string precision = "real";
  std::string preset = "none";
  int64_t protected_layers = kOfPreset;
  std::string signs = "none";
  static constexpr int64_t kOfPreset = -1;

  bool has_preset() const { return preset != "none"; }
  int64_t n_protected() const { return protected_layers == kOfPreset ? (has_preset() ? 2 : 0) : protected_layers; }
  void visit(kvc::OptionVisitor& v) {
    v.integer_of("bits", bits, {1, 2, 3, 4}, "bits a coordinate");
    v.choice("keys", keys, {"mse", "inner_product"},
             "use all bits of K for codes, or one bit for a sketch of the error");
    v.integer("seed", seed, 0, kvc::kNoUpperLimit, "seed of rotation and sketch");
    v.choice("precision", precision, {"real", "exact"}, "norms in fp16, or fp32");
    v.choice("preset", preset,
             {"none", "turboquant_k8v4", "turboquant_4bit_nc", "turboquant_k3v4_nc", "turboquant_3bit_nc"},
             "configuration of vLLM's --kv-cache-dtype with this name, instead of bits and keys");
    v.integer("protected_layers", protected_layers, kOfPreset, kvc::kNoUpperLimit,
              "first and last layers kept uncompressed; -1: 2 with a preset, else 0");
    v.choice("signs", signs, {"none", "drawn"},
             "random signs of a preset's Hadamard matrix: none, or drawn with `seed`");
  }
};

struct ModelTables {
  turboquant::Tables k, v;
};

class TurboquantCache final : public kvc::TensorPairCache<turboquant::RotatedCodes> {
 public:
  TurboquantCache(const kvc::LayerInfo& info, const ModelTables& tables, kvc::Precision precision)
      : TensorPairCache(info, {tables.k, precision}, {tables.v, precision}), tables_(tables) {}

  kvc::KeyValue attended() const override { return {k_.attended(), v_.attended()}; }

 private:
  at::Tensor to_basis(const at::Tensor& q) const override {
    return turboquant::rotate(q.to(at::kFloat).contiguous(), tables_.k);
  }
  at::Tensor from_basis(const at::Tensor& out) const override { return turboquant::rotate_back(out, tables_.v); }

  const ModelTables& tables_;
};

class Turboquant final : public kvc::PartsCompressor {
 public:
  explicit Turboquant(const TurboquantOptions& options)
      : options_(options), precision_(kvc::precision_named(options.precision)) {
    KVC_CHECK(options.keys == "mse" || options.bits > 1, "turboquant: keys inner_product at 1 bit, allowed: 2, 3, 4");
    KVC_CHECK(options.has_preset() || options.signs == "none", "turboquant: signs drawn without a preset");
    if (!options.has_preset()) return;
    preset_ = turboquant::preset_named(options.preset);
    KVC_CHECK(options.bits == TurboquantOptions{}.bits && options.keys == TurboquantOptions{}.keys,
              "turboquant: preset ", options.preset, " with bits ", options.bits, " and keys ", options.keys,
              ", allowed: neither together with it");
    KVC_CHECK(options.signs == "drawn" || options.seed == 0, "turboquant: preset ", options.preset, " with seed ",
              options.seed, ", allowed: with signs drawn");
    KVC_CHECK(options.signs == "none" || preset_.turns_keys(), "turboquant: preset ", options.preset,
              " does not rotate keys, signs drawn, allowed: none");
  }

  void check_model(const kvc::ModelShape& model) const override {
    KVC_CHECK(model.head_dim >= 3, "turboquant: head_dim ", model.head_dim, ", allowed: 3 and more");
    const int64_t n = options_.n_protected();
    KVC_CHECK(n == 0 || n <= (model.n_layers - 1) / 2, "turboquant: ", n, " protected layers at either end of ",
              model.n_layers, " leave none, allowed: protected_layers up to ", (model.n_layers - 1) / 2);
    KVC_CHECK(!preset_.turns_keys() || std::has_single_bit(static_cast<uint64_t>(model.head_dim)),
              "turboquant: head_dim ", model.head_dim, " with preset ", options_.preset,
              ", allowed: a power of two, which its Hadamard matrix needs");
  }

  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    const int64_t n = options_.n_protected();
    if (info.layer < n || info.layer >= info.n_layers - n) return turboquant::make_exact_cache(info, precision_);
    if (options_.has_preset()) {
      const auto* keys = preset_.turns_keys() ? &tables_for(info.head_dim, info.device).k : nullptr;
      return turboquant::make_preset_cache(info, preset_, keys, precision_);
    }
    return std::make_unique<TurboquantCache>(info, tables_for(info.head_dim, info.device), precision_);
  }

  double bits() const override {
    return options_.has_preset() ? static_cast<double>(preset_.k_bits + preset_.v_bits) / 2
                                 : static_cast<double>(options_.bits);
  }

  // b bits a coordinate; the paper counts no norms. A preset's: vLLM's slots. Protected layers by their share.
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    const double exact = kvc::fp16_bytes(model, n_prompt_tokens + n_new_tokens);
    const double of_exact = options_.has_preset()
                                ? static_cast<double>(turboquant::slot_bytes(preset_, model.head_dim)) /
                                      static_cast<double>(4 * model.head_dim)
                                : bits() / 16;
    const double kept = static_cast<double>(2 * options_.n_protected()) / static_cast<double>(model.n_layers);
    return (kept + (1 - kept) * of_exact) * exact;
  }

 private:
  turboquant::Tables tables(int64_t bits, int64_t head_dim, at::Device device) const {
    const auto seed = static_cast<uint64_t>(options_.seed);
    turboquant::Tables tables;
    if (options_.has_preset()) {  // whose levels are those of N(0, 1)
      tables.rotation = turboquant::hadamard(head_dim, options_.signs == "drawn", seed).to(device);
      tables.keeps_length = true;
    } else {
      tables.rotation = projections_.matrix(kvc::ProjectionKind::orthogonal, seed, head_dim, head_dim, device);
    }
    const auto quantizer = turboquant::lloyd_max(bits, options_.has_preset() ? 0 : head_dim);
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
    if (options_.has_preset()) {
      return made_.emplace(key, ModelTables{.k = tables(preset_.k_bits, head_dim, device), .v = {}}).first->second;
    }
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
  turboquant::Preset preset_;
  kvc::Precision precision_;
  kvc::Projections projections_;
  mutable std::mutex mutex_;
  mutable std::map<std::tuple<int64_t, at::DeviceType, at::DeviceIndex>, ModelTables> made_;
};

}  // namespace

KVC_PLUGIN(
    TurboquantOptions, Turboquant, "turboquant", "quantization: random rotation, optimal scalar codes, norms",
    "Zandieh et al. 2025 (TurboQuant, arXiv 2504.19874), algorithms 1 and 2",
    "no outlier channels at more bits (the paper's 2.5 and 3.5 bits); the sketch is for keys only, values use the "
    "variant of least error; one rotation for all layers and sequences; of sketched keys dequantize() gives, "
    "for probes only, the least-squares K, which no score is computed from",
    {.one_by_one_same = true,
     .prefix_local = true,
     .estimates = true,
     .splits = true,
     .chunked_prompt = true,
     .formula = "TurboQuant"})
