// KIVI: K per channel in groups of g tokens, V per token in groups of g channels of a head, the newest tokens exact.
// K is encoded in runs of `recent` tokens, V token by token when it leaves the window of `recent` tokens. As in the
// public code a decode step appends, attends, then encodes: what is due waits for the next append.
// Bytes per layer, n_k and n_v encoded tokens of T:
//   H_kv * D * ((n_k + n_v) * (b/8 + 4/g) + 2 * (2*T - n_k - n_v));   precision exact: 8/g and 4 bytes a recent number.
#include <kvc/plugin.h>
#include <kvc/quant/compressed_attention.h>

#include <algorithm>

namespace {

struct KiviOptions {
  int64_t bits = 2;
  int64_t group_size = 32;
  int64_t recent = 128;
  std::string precision = "real";
  void visit(kvc::OptionVisitor& v) {
    v.integer_of("bits", bits, {2, 4, 8}, "bits per code");
    v.integer_of("group_size", group_size, {16, 32, 64, 128, 256},
                 "tokens (K) or channels (V) that share a scale and zero");
    v.integer("recent", recent, 0, kvc::kNoUpperLimit,
              "newest tokens held exactly; a multiple of group_size, 0 for none");
    v.choice("precision", precision, {"real", "exact"},
             "scales, zeros, recent in fp16, or fp32 to compare with references");
  }
};

struct KiviFormat {
  kvc::GroupFormat k, v;
  int64_t recent;   // V's window
  int64_t k_chunk;  // K is encoded in multiples of this
};

class KiviCache final : public kvc::LayerCache {
 public:
  KiviCache(const kvc::LayerInfo& info, const KiviFormat& format) : LayerCache(info), format_(format) {}

  void append(const kvc::NewTokens& tokens) override {
    check_new_tokens(tokens);
    const bool prompt = length() == 0;
    if (info().holds_k()) k_.recent.push_back(tokens.k);
    if (info().holds_v()) v_.recent.push_back(tokens.v);
    // After the prompt K keeps n mod chunk tokens and V the window. Then what the step before left full goes first.
    const int64_t n_k = std::max<int64_t>(k_.recent.n_tokens() - (prompt ? 0 : 1), 0);
    const int64_t n_v = v_.recent.n_tokens() - (prompt ? 0 : 1);
    k_.encode_front(n_k - n_k % format_.k_chunk, format_.k);
    v_.encode_front(std::max<int64_t>(n_v - format_.recent, 0), format_.v);
  }

  at::Tensor attend(const at::Tensor& q, double scale) const override {
    return kvc::CompressedAttention::takes(q) ? kvc::attend_stored(q, scale, info(), k_, v_) : LayerCache::attend(q, scale);
  }

  kvc::KeyValue dequantize() const override { return {k_.dequantize(), v_.dequantize()}; }
  int64_t length() const override { return std::max(k_.n_tokens(), v_.n_tokens()); }
  int64_t n_encoded_tokens() const override { return std::max(k_.codes.n_tokens(), v_.codes.n_tokens()); }

  kvc::Footprint footprint() const override {
    kvc::Footprint bytes;
    k_.add_to(bytes, kvc::CacheTensor::k);
    v_.add_to(bytes, kvc::CacheTensor::v);
    return bytes;
  }

 private:
  KiviFormat format_;
  kvc::StoredTokens k_{format_.k.precision}, v_{format_.v.precision};
};

class Kivi final : public kvc::Compressor {
 public:
  explicit Kivi(const KiviOptions& options) {
    KVC_CHECK(options.recent % options.group_size == 0, "kivi: recent ", options.recent,
              " is not a multiple of group_size ", options.group_size);
    format_.k = {.bits = options.bits,
                 .group_size = options.group_size,
                 .axis = kvc::GroupAxis::tokens,
                 .precision = kvc::precision_named(options.precision)};
    format_.v = format_.k;
    format_.v.axis = kvc::GroupAxis::channels;
    format_.recent = options.recent;
    format_.k_chunk = options.recent > 0 ? options.recent : options.group_size;
  }

  void check_model(const kvc::ModelShape& model) const override {
    KVC_CHECK(model.head_dim % format_.v.group_size == 0, "kivi: group_size ", format_.v.group_size,
              " does not divide head_dim ", model.head_dim);
  }
  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<KiviCache>(info, format_);
  }
  double bits() const override { return static_cast<double>(format_.k.bits); }

  // GEAR's table: b/16 + 2/g + recent/n_prompt of the fp16 bytes (the window is charged on top of the codes).
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    const double fraction =
        bits() / 16 + 2.0 / static_cast<double>(format_.k.group_size) +
        static_cast<double>(format_.recent) / static_cast<double>(std::max<int64_t>(n_prompt_tokens, 1));
    return fraction * 4.0 * static_cast<double>(model.n_kv_heads * model.head_dim * (n_prompt_tokens + n_new_tokens));
  }

 private:
  KiviFormat format_;
};

}  // namespace

KVC_PLUGIN(
    KiviOptions, Kivi, "kivi", "K per channel, V per token, recent tokens exact",
    "Liu et al. 2024 (KIVI), section 3.2 and algorithm 1",
    "real precision encodes with the fp16-rounded scale and zero; a constant group has scale 0; recent 0 is ours",
    {.one_by_one_same = true, .splits = true})
