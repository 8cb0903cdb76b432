// GEAR-X: GEAR with its outliers replaced by a fixed mask, X^ = D^ + L + S. S holds the entries of an expander mask E
// of n tokens x m channels, the same for K and V, all layers and all sequences; every token has d_t entries. Slices: a
// token's channels of all heads (m = H_kv*D), or of each head (m = D, then d_t counts a token's entries of all heads).
// d_t is the smallest multiple of m/gcd(m, n) that is at least density*m and gives 2 edges and more to all.
// stream grouped: the prompt's largest multiple of nb is one chunk, then each nb tokens; whole: the whole prompt is one
// (kivi: its largest multiple of g), with the first n rows of the mask of the next multiple of nb tokens.
// Bytes per layer: for each chunk of n tokens with rank r, and each of K, V
//   codes:    kivi K: H_kv*D*(n*b/8 + 4*n/g);  kivi V, token_group K and V: H_kv*n*(4*ceil(D*b/32) + 4*D/g)
//             kcvt K: H_kv*D*(4*ceil(n*b/32) + 4);  kcvt V: n*(H_kv*4*ceil(D*b/32) + 4)
//   low rank: 2*H_kv*r*(n + D), r at most min(n, D);  S: 2*n*d_t
// plus 4*H_kv*D a token in the buffer. The mask, 2*n*d_t bytes a shape, is the compressor's and not in the footprint.
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/backbone.h>
#include <kvc/quant/chunked_cache.h>
#include <kvc/quant/keyed_generator.h>
#include <kvc/quant/shared_options.h>

#include <algorithm>

#include "mask_store.h"

namespace {

struct GearxOptions : kvc::BackboneOptions {
  GearxOptions() { buffer = 64; }
  kvc::LowRankOptions low_rank;
  double prompt_density = 0.015625;
  double decode_density = 0.03125;
  std::string slice = "merged";
  std::string stream = "grouped";
  int64_t seed = 0;
  void visit(kvc::OptionVisitor& v) {
    visit_codes(v, {"token_group", "kcvt", "kivi"}, "base quantizer, before the two corrections", {16, 32, 64});
    low_rank.visit(v);
    v.real("prompt_density", prompt_density, 0, 0.5, "smallest fraction of the prompt's values in the mask");
    v.real("decode_density", decode_density, 0, 0.5, "the same, for chunks of new tokens");
    v.choice("slice", slice, {"merged", "head"}, "a mask over the channels of all heads, or of each head");
    v.choice("stream", stream, {"grouped", "whole"},
             "encode the prompt in multiples of buffer (SG), or in one chunk (SR)");
    v.integer_of("buffer", buffer, {64, 96, 128}, "new tokens compressed together");
    v.choice("fill", fill, {"masked", "zero"},
             "what replaces the mask's entries during quantization; masked: excluded from their group's range");
    v.integer("seed", seed, 0, kvc::kNoUpperLimit, "seed of the masks and of the power iteration");
    kvc::visit_precision(v, precision, "all floats");
  }
};

struct Shared {  // by all caches of a compressor
  GearxOptions options;
  kvc::Backbone backbone;
  gearx::MaskStore masks;

  // The mask of a chunk of n tokens, of which it may use the first rows.
  gearx::MaskKey mask_key(int64_t n_kv_heads, int64_t head_dim, int64_t n_tokens, bool prompt) const {
    const int64_t m = options.slice == "merged" ? n_kv_heads * head_dim : head_dim;
    const int64_t n = (n_tokens + options.buffer - 1) / options.buffer * options.buffer;
    const double density = prompt ? options.prompt_density : options.decode_density;
    return {m, n, gearx::token_degree(m, n, density), static_cast<uint64_t>(options.seed)};
  }
};

class GearxCache final : public kvc::ChunkedCache {
 public:
  GearxCache(const kvc::LayerInfo& info, const Shared& shared)
      : ChunkedCache(info, shared.backbone.buffer, shared.backbone.prompt_unit, shared.options.precision),
        shared_(shared) {}

 private:
  std::pair<kvc::CorrectedCodes, kvc::CorrectedCodes> encode(const at::Tensor& k, const at::Tensor& v, int64_t block,
                                                             bool prompt) const override {
    const auto& options = shared_.options;
    kvc::CorrectionFormat format{.groups = shared_.backbone.k,
                                 .fill = kvc::fill_named(options.fill),
                                 .rank = prompt ? options.low_rank.rank : options.low_rank.decode_rank,
                                 .loops = options.low_rank.loops,
                                 .precision = options.precision};
    auto generator =
        kvc::keyed_generator(static_cast<uint64_t>(options.seed), info().sequence_key, info().layer, block);
    const auto sizes = (k.defined() ? k : v).sizes();
    const auto entries = mask_of(sizes[1], prompt);
    const auto part = [&](const at::Tensor& x) {
      if (x.defined()) return kvc::encode_corrected(x, entries, format, generator);
      kvc::skip_corrected(sizes, format, generator);
      return kvc::CorrectedCodes();
    };
    auto k_codes = part(k);  // the generator gives K's start first
    format.groups = shared_.backbone.v;
    return {std::move(k_codes), part(v)};
  }

  // The mask is the compressor's, which counts it.
  kvc::Outliers mask_of(int64_t n_tokens, bool prompt) const {
    const auto key = shared_.mask_key(info().n_kv_heads, info().head_dim, n_tokens, prompt);
    const int64_t n_copies = shared_.options.slice == "merged" ? 1 : info().n_kv_heads;
    kvc::Outliers entries;
    entries.index = shared_.masks.index(key, n_copies, info().device).narrow(0, 0, n_tokens);
    entries.index_is_shared = true;
    return entries;
  }

  const Shared& shared_;  // the compressor's
};

class Gearx final : public kvc::PartsCompressor {
 public:
  explicit Gearx(const GearxOptions& options) {
    shared_.options = options;
    shared_.backbone = kvc::make_backbone("gearx", options);
    shared_.backbone.prompt_unit = options.stream == "grouped"  ? options.buffer
                                   : options.backbone == "kivi" ? options.group_size
                                                                : 1;
    kvc::BackboneOptions published = options;
    published.buffer = 0;
    paper_backbone_ = kvc::make_backbone("gearx", published);
  }

  void check_model(const kvc::ModelShape& model) const override {
    shared_.backbone.check_model("gearx", model);
    const auto& options = shared_.options;
    options.low_rank.check_model("gearx", model);
    const int64_t width = model.n_kv_heads * model.head_dim;
    KVC_CHECK(width <= 65536, "gearx: ", width, " channels per token, mask indices allow up to 65536");
    for (const bool prompt : {true, false}) {
      const auto key = shared_.mask_key(model.n_kv_heads, model.head_dim, options.buffer, prompt);
      KVC_CHECK(2 * key.token_degree <= key.n_channels, "gearx: the sparsest regular mask of ", key.n_tokens,
                " tokens x ", key.n_channels, " channels has ", key.token_degree,
                " channels per token, allowed: up to half");
    }
  }
  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<GearxCache>(info, shared_);
  }
  double bits() const override { return static_cast<double>(shared_.backbone.bits); }

  // GEAR-X's table 1: GEAR-L's form, which charges GEAR's buffer, + 2 * prompt_density (32.1 = 29.0 + 3.12).
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    const double fraction = paper_backbone_.paper_fraction(model, n_prompt_tokens) +
                            shared_.options.low_rank.paper_fraction(model, n_prompt_tokens) +
                            2 * shared_.options.prompt_density;
    return fraction * kvc::fp16_bytes(model, n_prompt_tokens + n_new_tokens);
  }

 private:
  Shared shared_;
  kvc::Backbone paper_backbone_;
};

}  // namespace

KVC_PLUGIN(
    GearxOptions, Gearx, "gearx",
    "quantization: base quantizer + low-rank approximation of its error + the entries of an expander mask",
    "Mirani et al. 2025 (GEAR-X), section 3; no code is public",
    "entries of the mask are excluded from minimum and maximum (fill masked) and stored as differences; a slice is a "
    "token's channels of all heads; degrees below 2 are raised to 2; stream whole cuts the mask of the next multiple "
    "of buffer, so that there only tokens have equal degrees; each part of a prompt in chunks is a chunk of its own",
    {.splits = true, .chunked_prompt = true, .formula = "GEAR-X"})
