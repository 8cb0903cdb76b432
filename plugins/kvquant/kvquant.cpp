// KVQuant: keys before RoPE per channel with static ranges, values per token with their own, integer codes or a
// non-uniform codebook for each, outliers beside them (matrix.h), the first tokens exact. The ranges of K and the
// codebooks come from texts before the run (calibration.h), or from the sequence itself: then tokens wait exactly until
// `calibration_tokens` of them are there, these calibrate and are encoded, and each later token is encoded as it comes.
// Bytes per layer, M = H_kv*D channels, E encoded tokens of T, n outliers of K and V together:
//   2 * 4*E*ceil(M*b/32)  codes;  4*E  zero and scale of V's tokens;  4*n + 2 * 2*E  outliers;  4*M*(T - E)  exact
//   calibrated by the sequence: + 4*M  zero and scale of K's channels + 2 * 2 * 2^b  levels (uniform: 0)
// precision exact: 4 bytes a float instead of 2. What a calibration file gives is held once for all sequences, and not
// among a sequence's bytes.
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/shared_options.h>
#include <kvc/shared.h>

#include <map>
#include <mutex>
#include <tuple>

#include "cache.h"
#include "calibration.h"

namespace {

struct KvquantOptions {
  int64_t bits = 4;
  std::string levels = "uniform";
  double sparsity = 0.01;
  int64_t first_tokens = 1;
  std::string calibration = "none";
  int64_t calibration_tokens = 64;
  std::string centroids = "plain";
  std::string key_outliers = "all";
  kvc::Precision precision = kvc::Precision::real;
  void visit(kvc::OptionVisitor& v) {
    v.integer_of("bits", bits, {2, 3, 4}, "bits per code");
    v.choice("levels", levels, {"uniform", "non_uniform"},
             "uniform quantization, or k-means centroids (needs a calibration)");
    v.real("sparsity", sparsity, 0, 0.5, "fraction of outliers per channel (K) or token (V), half on each side");
    v.integer("first_tokens", first_tokens, 0, kvc::kNoUpperLimit, "first tokens of the sequence, kept uncompressed");
    v.file("calibration", calibration, {"none", "sequence"},
           "source of K's ranges and the centroids: a file of kvc calibrate, or the sequence's first tokens");
    v.integer("calibration_tokens", calibration_tokens, 1, kvc::kNoUpperLimit,
              "fewest tokens that a sequence is calibrated on (without a file)");
    v.choice("centroids", centroids, {"plain", "q_norm"},
             "q_norm: shift and scale to keep mean and deviation (needs a file)");
    v.choice("key_outliers", key_outliers, {"all", "capped"},
             "per token's key: all, or at most sparsity/2 * M + 1 on each side");
    kvc::visit_precision(v, precision, "all floats");
  }
};

class Kvquant final : public kvc::Compressor, public kvc::Calibrated {
 public:
  explicit Kvquant(const KvquantOptions& options) : options_(options) {
    format_.matrix = {.bits = options.bits,
                      .uniform = options.levels == "uniform",
                      .sparsity = options.sparsity,
                      .precision = options.precision};
    format_.first_tokens = options.first_tokens, format_.calibration_tokens = options.calibration_tokens;
  }

  void check_model(const kvc::ModelShape& model) const override {
    const int64_t n_channels = model.n_kv_heads * model.head_dim;
    KVC_CHECK(n_channels <= 65535, "kvquant: ", n_channels, " channels per token, outlier indices allow up to 65535");
    KVC_CHECK(!model.has_rope || model.head_dim % 2 == 0, "kvquant: RoPE over an odd head_dim ", model.head_dim);
    KVC_CHECK(format_.matrix.uniform || options_.calibration != "none",
              "kvquant: levels non_uniform need a calibration, but calibration is none; expected a file written by kvc "
              "calibrate, or sequence");
    KVC_CHECK(options_.centroids == "plain" || (!format_.matrix.uniform && has_file()),
              "kvquant: centroids q_norm with levels ", options_.levels, " and calibration ", options_.calibration,
              ", expected non_uniform and a file");
  }
  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    auto format = format_;
    if (options_.key_outliers == "capped") {
      const double n_channels = static_cast<double>(info.n_kv_heads * info.head_dim);
      format.n_capped = static_cast<int64_t>(format.matrix.sparsity / 2 * n_channels) + 1;
    }
    const kvquant::LayerTables* tables = nullptr;
    if (has_file()) {
      KVC_CHECK(info.layer < static_cast<int64_t>(tables_.size()), "kvquant: calibration '", options_.calibration,
                "' is for ", tables_.size(), " layers, this is layer ", info.layer);
      tables = &tables_on(info.device, info.layer);
    }
    return std::make_unique<kvquant::Cache>(info, format, tables);
  }
  double bits() const override { return static_cast<double>(format_.matrix.bits); }

  // b bits a number and, for each outlier, a value and an index of 16 bits.
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    return (bits() + 32 * format_.matrix.sparsity) / 16 * kvc::fp16_bytes(model, n_prompt_tokens + n_new_tokens);
  }

  std::string calibration_file() const override { return has_file() ? options_.calibration : ""; }
  // One file serves all bits, both kinds of levels and Q-Norm.
  std::vector<std::string> calibrated_options() const override { return {"sparsity", "first_tokens"}; }
  std::unique_ptr<kvc::Calibrator> make_calibrator(const kvc::ModelShape& model) const override {
    return kvquant::make_calibrator(model, options_.sparsity, options_.first_tokens);
  }
  void load(const kvc::ModelShape& model, const kvc::NamedTensors& tensors) override {
    tables_ = kvquant::tables_from(tensors, model, format_.matrix, options_.centroids == "q_norm");
    on_devices_.clear();
  }

 private:
  bool has_file() const { return options_.calibration != "none" && options_.calibration != "sequence"; }

  // From the file, on a device once for all its caches.
  const kvquant::LayerTables& tables_on(at::Device device, int64_t layer) const {
    const auto& here = tables_[static_cast<size_t>(layer)];
    if (device.is_cpu()) return here;
    const kvc::Shared shared;
    const std::lock_guard lock(mutex_);
    const std::tuple key{layer, device.type(), device.index()};
    const auto found = on_devices_.find(key);
    return found != on_devices_.end() ? found->second : on_devices_.emplace(key, here.on(device)).first->second;
  }

  KvquantOptions options_;
  kvquant::CacheFormat format_;
  std::vector<kvquant::LayerTables> tables_;  // by layer, from the file
  mutable std::mutex mutex_;
  mutable std::map<std::tuple<int64_t, at::DeviceType, at::DeviceIndex>, kvquant::LayerTables> on_devices_;
};

}  // namespace

KVC_PLUGIN(
    KvquantOptions, Kvquant, "kvquant",
    "quantization: keys before RoPE per channel, values per token, outliers stored separately",
    "Hooper et al. 2024 (KVQuant), sections 3.1 to 3.5, and its public code",
    "without a calibration file (calibration: none or sequence) ranges of K, and centroids, come from the "
    "sequence's own first tokens; k-means starts from quantiles and is weighted by gradients only where the file "
    "was made with --fisher; a token's key outliers are capped only with key_outliers: capped; outliers are stored "
    "as they are, not as differences; a calibrated table of a model is not counted among a sequence's bytes; of a "
    "prompt in chunks the first tokens alone calibrate",
    {.chunked_prompt = true, .turns_keys = true, .formula = "KVQuant"})
