// KCVT: K per channel over a whole chunk, V per token over all channels of all heads.
// The prompt is one chunk; new tokens wait exactly in a buffer and are encoded together, as a chunk of their own, when
// it is full and the next token comes. Chunks never change.
// Bytes per layer, chunks of n_c tokens, m tokens in the buffer, D_all = H_kv * D:
//   sum over chunks [ K: D_all * (4 * ceil(n_c*b/32) + 4) + V: n_c * (H_kv * 4 * ceil(D*b/32) + 4) ] + 4 * m * D_all.
// A chunk of 20 tokens at 4 bits costs 16 bytes a channel of K, 6.4 bits a number: short chunks are dear.
#include <kvc/plugin.h>
#include <kvc/quant/compressed_attention.h>

#include <algorithm>

namespace {

struct KcvtOptions {
  int64_t bits = 4;
  int64_t buffer = 20;
  std::string precision = "real";
  void visit(kvc::OptionVisitor& v) {
    v.integer_of("bits", bits, {2, 4, 8}, "bits per code");
    v.integer("buffer", buffer, 1, kvc::kNoUpperLimit, "new tokens held exactly until they are encoded together");
    v.choice("precision", precision, {"real", "exact"},
             "scales, zeros, buffer in fp16, or fp32 to compare with references");
  }
};

struct KcvtFormat {
  kvc::GroupFormat k, v;
  int64_t buffer;
};

class KcvtCache final : public kvc::LayerCache {
 public:
  KcvtCache(const kvc::LayerInfo& info, const KcvtFormat& format) : LayerCache(info), format_(format) {}

  void append(const kvc::NewTokens& tokens) override {
    check_new_tokens(tokens);
    const bool prompt = length() == 0;
    if (info().holds_k()) k_.recent.push_back(tokens.k);
    if (info().holds_v()) v_.recent.push_back(tokens.v);
    if (prompt) encode(held().recent.n_tokens());
    while (held().recent.n_tokens() > format_.buffer) encode(format_.buffer);
  }

  at::Tensor attend(const at::Tensor& q, double scale) const override {
    return kvc::CompressedAttention::takes(q) ? kvc::attend_stored(q, scale, info(), k_, v_) : LayerCache::attend(q, scale);
  }

  kvc::KeyValue dequantize() const override { return {k_.dequantize(), v_.dequantize()}; }
  int64_t length() const override { return held().n_tokens(); }
  int64_t n_encoded_tokens() const override { return held().codes.n_tokens(); }

  kvc::Footprint footprint() const override {
    kvc::Footprint bytes;
    k_.add_to(bytes, kvc::CacheTensor::k);
    v_.add_to(bytes, kvc::CacheTensor::v);
    return bytes;
  }

 private:
  void encode(int64_t n_tokens) {
    if (info().holds_k()) k_.encode_front(n_tokens, format_.k);
    if (info().holds_v()) v_.encode_front(n_tokens, format_.v);
  }
  const kvc::StoredTokens& held() const { return info().holds_k() ? k_ : v_; }  // K and V keep step

  KcvtFormat format_;
  kvc::StoredTokens k_{format_.k.precision}, v_{format_.v.precision};
};

class Kcvt final : public kvc::Compressor {
 public:
  explicit Kcvt(const KcvtOptions& options) {
    format_.k = {
        .bits = options.bits, .axis = kvc::GroupAxis::tokens, .precision = kvc::precision_named(options.precision)};
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
    return fraction * 4.0 * static_cast<double>(model.n_kv_heads * model.head_dim * (n_prompt_tokens + n_new_tokens));
  }

 private:
  KcvtFormat format_;
};

}  // namespace

KVC_PLUGIN(
    KcvtOptions, Kcvt, "kcvt", "K per channel of a chunk, V per token over all heads",
    "Kang et al. 2024 (GEAR), the KCVT backbone",
    "chunks are immutable (the public code encodes the whole cache again at each flush); real precision encodes with "
    "the fp16-rounded scale and zero; constant groups have scale 0",
    {.splits = true})
