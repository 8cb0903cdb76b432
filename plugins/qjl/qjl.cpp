// QJL: keys as signs of random projections with their norms, values per token in groups of g channels of a head. Scores
// are estimated from the signs (key_sketch.h); a key is reconstructed for probes only. Keys wait exactly until `buffer`
// of them are sketched together, before attention runs; the last `buffer` values are exact. Bytes per layer, n_k = T -
// T mod buffer sketched keys, n_v = max(T - buffer, 0) encoded values, C outlier channels:
//   keys:   H_kv * (n_k * (m/8 + 2) + [C > 0] * (n_k * (m_o/8 + 2) + C * n_k/g)) + 2*H_kv*D*(T - n_k)
//           outliers "prompt": H_kv*C instead of the last product
//   values: H_kv * (n_v * (4*ceil(D*b/32) + 4*D/g) + 2*D*(T - n_v))
// precision exact: 4 bytes a norm and number instead of 2, 8 a scale and zero. The projection S, [D, m] fp32, is a
// constant of the method, one for the initial layers and one for the rest, and no cache's.
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/parts_cache.h>
#include <kvc/quant/shared_options.h>

#include <algorithm>

#include "key_sketch.h"

namespace {

struct QjlOptions {
  int64_t sketch = 256;
  int64_t outlier_sketch = 256;
  int64_t initial_layers = 15;
  int64_t initial_sketch = 512;
  int64_t initial_outlier_sketch = 128;
  int64_t outlier_channels = 8;
  std::string outliers = "group";
  std::string projection = "orthogonal";
  std::string outlier_projection = "shared";
  int64_t value_bits = 2;
  int64_t group_size = 32;
  int64_t buffer = 128;
  int64_t seed = 42;
  std::string precision = "real";
  void visit(kvc::OptionVisitor& v) {
    v.integer("sketch", sketch, 32, 65536, "signs per key, a multiple of 32");
    v.integer("outlier_sketch", outlier_sketch, 32, 65536, "signs for a key's outlier channels, up to sketch");
    v.integer("initial_layers", initial_layers, 0, kvc::kNoUpperLimit,
              "first layers, which have their own sketch sizes");
    v.integer("initial_sketch", initial_sketch, 32, 65536, "sketch in the initial layers");
    v.integer("initial_outlier_sketch", initial_outlier_sketch, 32, 65536, "outlier_sketch in the initial layers");
    v.integer("outlier_channels", outlier_channels, 0, 256, "outlier channels per head, sketched separately; 0: none");
    v.choice("outliers", outliers, {"group", "prompt"},
             "choose outlier channels per group of tokens, or once for the prompt");
    v.choice("projection", projection, {"orthogonal", "gaussian"},
             "projection: orthogonal blocks of columns, or N(0, 1) entries");
    v.choice("outlier_projection", outlier_projection, {"shared", "own"},
             "projection for outlier channels: the first columns of the same one, or an independent one");
    v.integer_of("value_bits", value_bits, {2, 4, 8}, "bits per code of V");
    v.integer_of("group_size", group_size, {16, 32, 64, 128},
                 "channels per scale (V), tokens per choice of outlier channels (K)");
    v.integer("buffer", buffer, 1, kvc::kNoUpperLimit, "newest tokens kept uncompressed; a multiple of group_size");
    v.integer("seed", seed, 0, kvc::kNoUpperLimit, "seed of the projections");
    v.choice("precision", precision, {"real", "exact"}, "norms, scales, recent in fp16, or fp32 to compare");
  }
};

struct QjlFormat {
  qjl::SketchFormat k;
  kvc::GroupFormat v;
  int64_t buffer = 0;
  bool prompt_outliers = false;
};

class QjlCache final : public kvc::PartsCache {
 public:
  QjlCache(const kvc::LayerInfo& info, const QjlFormat& format, qjl::Sketches sketches)
      : PartsCache(info), format_(format), sketches_(std::move(sketches)) {}

  void append(const kvc::NewTokens& tokens) override {
    check_new_tokens(tokens);
    if (length() == 0 && format_.prompt_outliers) {
      const int64_t n = tokens.k.size(1);
      prompt_channels_ = qjl::outlier_channels(tokens.k.to(at::kFloat), n, format_.k.n_outlier_channels);
    }
    k_recent_.push_back(tokens.k);
    v_.recent.push_back(tokens.v);
    const int64_t n = k_recent_.n_tokens() - k_recent_.n_tokens() % format_.buffer;
    if (n > 0) {
      keys_.push_back(qjl::sketch_keys(k_recent_.pop_front(n), sketches_, format_.k, prompt_channels_));
      n_sketched_ += n;
    }
    v_.encode_front(std::max<int64_t>(v_.recent.n_tokens() - format_.buffer, 0), format_.v);
  }

  // For probes only: K nearest to the keys by least squares, which nothing attends to.
  kvc::KeyValue dequantize() const override { return with_keys(qjl::nearest_keys); }
  // K: the vectors whose inner product with any query is the estimate.
  kvc::KeyValue attended() const override { return with_keys(qjl::linear_functionals); }
  int64_t length() const override { return v_.n_tokens(); }
  int64_t n_encoded_tokens() const override { return std::max(n_sketched_, v_.codes.n_tokens()); }
  int64_t n_encoded_numbers() const override {
    return (n_sketched_ + v_.codes.n_tokens()) * info().n_kv_heads * info().head_dim;
  }

  kvc::Footprint footprint() const override {
    kvc::Footprint bytes;
    for (const auto& keys : keys_) keys.add_to(bytes);
    bytes.add(kvc::CacheTensor::k, kvc::ByteKind::index, prompt_channels_);
    k_recent_.add_to(bytes, kvc::CacheTensor::k);
    v_.add_to(bytes, kvc::CacheTensor::v);
    return bytes;
  }

 private:
  void read_k(kvc::CompressedAttention& attention) const override {
    const auto projected = qjl::projected(attention.q(), sketches_);
    int64_t first = 0;
    for (const auto& keys : keys_) {
      attention.add_scores(qjl::estimate_scores(attention.q(), projected, keys, sketches_, format_.k, prompt_channels_),
                           first);
      first += keys.n_tokens();
    }
    attention.score(k_recent_, first);
  }

  void read_v(kvc::CompressedAttention& attention) const override { attention.accumulate_v(v_, 0); }

  kvc::KeyValue with_keys(decltype(qjl::nearest_keys)& keys_of) const {
    std::vector<at::Tensor> parts;  // each [H_kv, t, D]
    for (const auto& keys : keys_) parts.push_back(keys_of(keys, sketches_, format_.k, prompt_channels_));
    if (k_recent_.n_tokens() > 0) parts.push_back(k_recent_.all());
    return {at::cat(parts, 1), v_.dequantize()};
  }

  QjlFormat format_;
  qjl::Sketches sketches_;      // views of the compressor's
  at::Tensor prompt_channels_;  // [H_kv, 1, C] u8; undefined where groups choose
  std::vector<qjl::KeySketch> keys_;
  int64_t n_sketched_ = 0;
  kvc::TokenBlocks k_recent_{kvc::storage_type(format_.k.precision)};
  kvc::StoredTokens v_{format_.v.precision};
};

void check_sketch(const char* name, int64_t sketch, const char* outlier_name, int64_t outlier_sketch) {
  KVC_CHECK(sketch % 32 == 0, "qjl: ", name, " ", sketch, " is not a multiple of 32");
  KVC_CHECK(outlier_sketch % 32 == 0 && outlier_sketch <= sketch, "qjl: ", outlier_name, " ", outlier_sketch,
            ", allowed: multiples of 32 up to ", name, " ", sketch);
}

class Qjl final : public kvc::PartsCompressor {
 public:
  explicit Qjl(const QjlOptions& options) : options_(options) {
    check_sketch("sketch", options.sketch, "outlier_sketch", options.outlier_sketch);
    check_sketch("initial_sketch", options.initial_sketch, "initial_outlier_sketch", options.initial_outlier_sketch);
    KVC_CHECK(options.buffer % options.group_size == 0, "qjl: buffer ", options.buffer,
              " is not a multiple of group_size ", options.group_size);
  }

  void check_model(const kvc::ModelShape& model) const override {
    kvc::check_group_size("qjl", options_.group_size, model);
    KVC_CHECK(options_.outlier_channels < model.head_dim, "qjl: outlier_channels ", options_.outlier_channels,
              ", allowed: fewer than head_dim ", model.head_dim);
    KVC_CHECK(options_.outlier_channels == 0 || model.head_dim <= 256, "qjl: head_dim ", model.head_dim,
              ", outlier channel indices allow up to 256");
  }

  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    const bool initial = info.layer < options_.initial_layers;
    const auto precision = kvc::precision_named(options_.precision);
    const QjlFormat format{
        .k = {.n_signs = initial ? options_.initial_sketch : options_.sketch,
              .n_outlier_signs = initial ? options_.initial_outlier_sketch : options_.outlier_sketch,
              .n_outlier_channels = options_.outlier_channels,
              .group_size = options_.group_size,
              .precision = precision},
        .v = {.bits = options_.value_bits, .group_size = options_.group_size, .precision = precision},
        .buffer = options_.buffer,
        .prompt_outliers = options_.outlier_channels > 0 && options_.outliers == "prompt"};
    const auto kind =
        options_.projection == "orthogonal" ? kvc::ProjectionKind::orthogonal : kvc::ProjectionKind::gaussian;
    const auto of = [&](uint64_t apart, int64_t n_signs) {
      const auto seed = static_cast<uint64_t>(options_.seed) + (initial ? 1 : 0) + apart;
      return projections_.matrix(kind, seed, info.head_dim, n_signs, info.device);
    };
    qjl::Sketches sketches{.keys = of(0, format.k.n_signs)};
    sketches.outliers = options_.outlier_projection == "own" ? of(2, format.k.n_outlier_signs)
                                                             : sketches.keys.narrow(1, 0, format.k.n_outlier_signs);
    return std::make_unique<QjlCache>(info, format, std::move(sketches));
  }

  double bits() const override { return static_cast<double>(options_.value_bits); }  // V's; K's codes are signs

  // K: (m + m_o + 32)/D + 8C/(g D) bits a number, two 16-bit norms a key; V: b + 32/g. All tokens, no buffer; the mean
  // over the model's layers.
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    const double d = static_cast<double>(model.head_dim), g = static_cast<double>(options_.group_size);
    const auto key_bits = [&](int64_t sketch, int64_t outlier_sketch) {
      if (options_.outlier_channels == 0) return static_cast<double>(sketch + 16) / d;
      return static_cast<double>(sketch + outlier_sketch + 32) / d +
             8 * static_cast<double>(options_.outlier_channels) / (g * d);
    };
    const double initial =
        static_cast<double>(std::min(options_.initial_layers, model.n_layers)) / static_cast<double>(model.n_layers);
    const double bits = initial * key_bits(options_.initial_sketch, options_.initial_outlier_sketch) +
                        (1 - initial) * key_bits(options_.sketch, options_.outlier_sketch) +
                        static_cast<double>(options_.value_bits) + 32 / g;
    return bits / 32 * kvc::fp16_bytes(model, n_prompt_tokens + n_new_tokens);  // of a number of K and one of V
  }

 private:
  QjlOptions options_;
  kvc::Projections projections_;
};

}  // namespace

KVC_PLUGIN(
    QjlOptions, Qjl, "qjl", "quantization: keys as signs of random projections, values per token",
    "Zandieh et al. 2024 (QJL), definition 1, algorithm 1 and its public code",
    "by default outliers use the first columns of the same projection, as in the public code (the paper: an "
    "independent one, outlier_projection own), and each group of tokens chooses its channels, as there (the "
    "paper: the prompt, outliers prompt); |k_in| is stored, not |k|; values are encoded while decoding, too; one "
    "projection for all sequences, as there; dequantize() gives, for probes only, the least-squares K, which no "
    "score is computed from; of a prompt in chunks the first chunk chooses with outliers prompt",
    {.estimates = true, .chunked_prompt = true, .formula = "QJL"})
