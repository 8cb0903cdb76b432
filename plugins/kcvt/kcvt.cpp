// KCVT: K per channel over a whole chunk, V per token over all channels of all heads.
// The prompt is one chunk; new tokens wait exactly in a buffer and are encoded together, as a chunk of their own, when
// it is full and the next token comes. Chunks never change.
// Bytes per layer, chunks of n_c tokens, m tokens in the buffer, D_all = H_kv * D:
//   sum over chunks [ K: D_all * (4 * ceil(n_c*b/32) + 4) + V: n_c * (H_kv * 4 * ceil(D*b/32) + 4) ] + 4 * m * D_all.
// A chunk of 20 tokens at 4 bits costs 16 bytes a channel of K, 6.4 bits a number: short chunks are dear.
#include <kvc/plugin.h>
#include <kvc/quant/shared_options.h>
#include <kvc/quant/stored_cache.h>

#include <algorithm>

namespace {

struct KcvtOptions {
  int64_t bits = 4;
  int64_t buffer = 20;
  kvc::Precision precision = kvc::Precision::real;
  void visit(kvc::OptionVisitor& v) {
    kvc::visit_bits(v, bits);
    kvc::visit_buffer(v, buffer);
    kvc::visit_precision(v, precision, "scales, zeros, buffer");
  }
};

struct KcvtFormat {
  kvc::GroupFormat k, v;
  int64_t buffer;
};

class KcvtCache final : public kvc::StoredCache {
 public:
  KcvtCache(const kvc::LayerInfo& info, const KcvtFormat& format)
      : StoredCache(info, format.k, format.v), buffer_(format.buffer) {}

  void append(const kvc::NewTokens& tokens) override {
    const bool prompt = tokens.kind != kvc::AppendKind::decoded;
    push_recent(tokens);
    if (prompt) encode_front(n_recent(), n_recent());
    while (n_recent() > buffer_) encode_front(buffer_, buffer_);
  }

 private:
  int64_t buffer_;
};

class Kcvt final : public kvc::PartsCompressor {
 public:
  explicit Kcvt(const KcvtOptions& options) {
    format_.k = {.bits = options.bits, .axis = kvc::GroupAxis::tokens, .precision = options.precision};
    format_.v = {
        .bits = options.bits, .axis = kvc::GroupAxis::channels, .merge_heads = true, .precision = format_.k.precision};
    format_.buffer = options.buffer;
  }

  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<KcvtCache>(info, format_);
  }
  double bits() const override { return static_cast<double>(format_.k.bits); }

  // GEAR's table: b/16 + 2/n_prompt + 2/D_model + buffer/n_prompt of the fp16 bytes (K's 2/n and V's 2/D in full,
  // though each concerns half of the cache; D_model counts the query heads, also under GQA).
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    const double n = static_cast<double>(std::max<int64_t>(n_prompt_tokens, 1));
    const double fraction = bits() / 16 + 2.0 / n + 2.0 / static_cast<double>(model.n_heads * model.head_dim) +
                            static_cast<double>(format_.buffer) / n;
    return fraction * kvc::fp16_bytes(model, n_prompt_tokens + n_new_tokens);
  }

 private:
  KcvtFormat format_;
};

}  // namespace

KVC_PLUGIN(
    KcvtOptions, Kcvt, "kcvt", "quantization: K per channel over a chunk, V per token over all heads",
    "Kang et al. 2024 (GEAR), the KCVT backbone",
    "chunks are immutable (the public code re-encodes the whole cache at each flush); real precision encodes with "
    "the fp16-rounded scale and zero; constant groups have scale 0",
    {.splits = true, .chunked_prompt = true, .formula = "GEAR"})
