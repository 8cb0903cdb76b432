// GEAR: a quantized backbone, plus a low-rank part per head for its error, plus outliers: X^ = D^ + L + S.
// New tokens wait exactly in a buffer of nb; when it is full and the next token comes, K and V are encoded together as
// an immutable chunk. The prompt is one chunk (backbone kcvt, none), or its largest multiple of nb is (token_group,
// kivi). Of the prompt's chunk only the last round(correct_fraction * n) tokens have a low-rank part.
// Bytes per layer: for each chunk of n tokens, m = n of them with rank r (the prompt's chunk: m and rank as above;
// after: decode_rank), and each of K, V:
//   codes:    kivi K: H_kv*D*(n*b/8 + 4*n/g);  kivi V, token_group K and V: H_kv*n*(4*ceil(D*b/32) + 4*D/g)
//             kcvt K: H_kv*D*(4*ceil(n*b/32) + 4);  kcvt V: n*(H_kv*4*ceil(D*b/32) + 4);  none: 0
//   low rank: 2*H_kv*r*(m + D), r at most min(m, D);  factor_bits 8: H_kv*r*(m + D + 8)
//   outliers: K, k = rne(s*n/2): 2k*H_kv*D*(2 + i);  V, k = rne(s*H_kv*D/2): 2k*n*(2 + i);
//             i = 1 up to 256 entries, else 2
// plus 4*H_kv*D a token in the buffer.
#include <kvc/plugin.h>
#include <kvc/quant/backbone.h>
#include <kvc/quant/chunked_cache.h>
#include <kvc/quant/keyed_generator.h>
#include <kvc/quant/shared_options.h>

#include <algorithm>

namespace {

struct GearOptions : kvc::BackboneOptions {
  kvc::LowRankOptions low_rank;
  int64_t factor_bits = 16;
  double correct_fraction = 1;
  double sparsity = 0.02;
  int64_t seed = 0;
  void visit(kvc::OptionVisitor& v) {
    visit_codes(v, {"token_group", "kcvt", "kivi", "none"},
                "base quantizer, before the two corrections; none: corrections only", {16, 32, 64, 128, 256});
    low_rank.visit(v);
    v.integer_of("factor_bits", factor_bits, {8, 16},
                 "bits of the low-rank factors; 8: with one scale and zero per column");
    v.real("correct_fraction", correct_fraction, 0, 1,
           "fraction of the prompt, counted from its end, with a low-rank part");
    v.real("sparsity", sparsity, 0, 1, "fraction of outliers, half smallest and half largest; 0 is GEAR-L");
    visit_buffer_and_fill(v);
    v.integer("seed", seed, 0, kvc::kNoUpperLimit, "seed of the power iteration");
    kvc::visit_precision(v, precision, "all floats");
  }
};

class GearCache final : public kvc::ChunkedCache {
 public:
  GearCache(const kvc::LayerInfo& info, const GearOptions& options, const kvc::Backbone& backbone)
      : ChunkedCache(info, backbone.buffer, backbone.prompt_unit, options.precision),
        options_(options),
        backbone_(backbone) {}

 private:
  std::pair<kvc::CorrectedCodes, kvc::CorrectedCodes> encode(const at::Tensor& k, const at::Tensor& v, int64_t block,
                                                             bool prompt) const override {
    kvc::CorrectionFormat format{.groups = {},
                                 .fill = kvc::fill_named(options_.fill),
                                 .rank = prompt ? options_.low_rank.rank : options_.low_rank.decode_rank,
                                 .low_rank_share = prompt ? options_.correct_fraction : 1,
                                 .loops = options_.low_rank.loops,
                                 .factor_bits = options_.factor_bits,
                                 .precision = options_.precision};
    auto generator =
        kvc::keyed_generator(static_cast<uint64_t>(options_.seed), info().sequence_key, info().layer, block);
    const auto part = [&](const at::Tensor& x, const kvc::GroupFormat& groups, kvc::GroupAxis outlier_axis) {
      if (!x.defined()) {
        kvc::skip_corrected((k.defined() ? k : v).sizes(), format, generator);
        return kvc::CorrectedCodes();
      }
      if (backbone_.quantizes) format.groups = groups;
      return kvc::encode_corrected(x, kvc::find_outliers(x, options_.sparsity, outlier_axis), format, generator);
    };
    auto k_codes = part(k, backbone_.k, kvc::GroupAxis::tokens);  // the generator gives K's start first
    return {std::move(k_codes), part(v, backbone_.v, kvc::GroupAxis::channels)};
  }

  const GearOptions& options_;  // the compressor's
  const kvc::Backbone& backbone_;
};

class Gear final : public kvc::PartsCompressor {
 public:
  explicit Gear(const GearOptions& options) : options_(options), backbone_(kvc::make_backbone("gear", options)) {
    const auto& [rank, decode_rank, loops] = options.low_rank;
    KVC_CHECK(backbone_.quantizes || options.sparsity > 0 || std::min(rank, decode_rank) > 0,
              "gear: backbone none with sparsity 0 and rank ", rank, ", decode_rank ", decode_rank,
              " stores nothing; allowed: ranks above 0, or sparsity above 0");
  }

  void check_model(const kvc::ModelShape& model) const override {
    backbone_.check_model("gear", model);
    options_.low_rank.check_model("gear", model);
    KVC_CHECK(options_.sparsity == 0 || model.n_kv_heads * model.head_dim <= 65536,
              "gear: ", model.n_kv_heads * model.head_dim, " channels per token, outlier indices allow up to 65536");
  }
  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<GearCache>(info, options_, backbone_);
  }
  double bits() const override { return static_cast<double>(backbone_.bits); }

  // GEAR's tables, as fractions of the fp16 bytes: backbone + low rank + outliers, which cost s with kcvt (values
  // alone) but 2s otherwise (value and index).
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    const double fraction = backbone_.paper_fraction(model, n_prompt_tokens) +
                            options_.low_rank.paper_fraction(model, n_prompt_tokens) +
                            options_.sparsity * (backbone_.grouped ? 2 : 1);
    return fraction * kvc::fp16_bytes(model, n_prompt_tokens + n_new_tokens);
  }

 private:
  GearOptions options_;
  kvc::Backbone backbone_;
};

}  // namespace

KVC_PLUGIN(
    GearOptions, Gear, "gear", "quantization: base quantizer + low-rank approximation of its error + outliers",
    "Kang et al. 2024 (GEAR), section 3 and algorithms 1 and 2",
    "chunks are immutable and each is encoded once (the public code encodes the whole cache again at each flush); K's "
    "outliers are counted per chunk, not by token width; outliers are stored as differences; a full buffer is encoded "
    "before the next token, not by dropping one; by default outliers are excluded from their group's minimum and "
    "maximum instead of leaving zeros there (equation 5: fill zero; the public code: fill mean); backbone none selects "
    "outliers from both ends of each vector, as GEAR does; each part of a prompt in chunks is a chunk of its own",
    {.splits = true, .chunked_prompt = true, .formula = "GEAR"})
