// KIVI: K per channel in groups of g tokens, V per token in groups of g channels of a head, the newest tokens exact.
// K is encoded in runs of `recent` tokens, V token by token when it leaves the window of `recent` tokens. As in the
// public code a decode step appends, attends, then encodes: what is due waits for the next append.
// Bytes per layer, n_k and n_v encoded tokens of T:
//   H_kv * D * ((n_k + n_v) * (b/8 + 4/g) + 2 * (2*T - n_k - n_v));   precision exact: 8/g and 4 bytes a recent number.
#include <kvc/plugin.h>
#include <kvc/quant/shared_options.h>
#include <kvc/quant/stored_cache.h>

#include <algorithm>

namespace {

struct KiviOptions {
  int64_t bits = 2;
  int64_t group_size = 32;
  int64_t recent = 128;
  kvc::Precision precision = kvc::Precision::real;
  void visit(kvc::OptionVisitor& v) {
    kvc::visit_bits(v, bits);
    v.integer_of("group_size", group_size, {16, 32, 64, 128, 256}, "tokens (K) or channels (V) per scale and zero");
    v.integer("recent", recent, 0, kvc::kNoUpperLimit,
              "newest tokens kept uncompressed; a multiple of group_size; 0: none");
    kvc::visit_precision(v, precision, "scales, zeros, recent");
  }
};

struct KiviFormat {
  kvc::GroupFormat k, v;
  int64_t recent;   // V's window
  int64_t k_chunk;  // K is encoded in multiples of this
};

class KiviCache final : public kvc::StoredCache {
 public:
  KiviCache(const kvc::LayerInfo& info, const KiviFormat& format)
      : StoredCache(info, format.k, format.v), recent_(format.recent), k_chunk_(format.k_chunk) {}

  void append(const kvc::NewTokens& tokens) override {
    const bool prompt = tokens.kind != kvc::AppendKind::decoded;
    push_recent(tokens);
    // After the prompt K keeps n mod chunk tokens and V the window. Then what the step before left full goes first.
    const int64_t n_k = std::max<int64_t>(k_.recent.n_tokens() - (prompt ? 0 : 1), 0);
    const int64_t n_v = v_.recent.n_tokens() - (prompt ? 0 : 1);
    encode_front(n_k - n_k % k_chunk_, std::max<int64_t>(n_v - recent_, 0));
  }

 private:
  int64_t recent_, k_chunk_;
};

class Kivi final : public kvc::PartsCompressor {
 public:
  explicit Kivi(const KiviOptions& options) {
    KVC_CHECK(options.recent % options.group_size == 0, "kivi: recent ", options.recent,
              " is not a multiple of group_size ", options.group_size);
    format_.k = {.bits = options.bits,
                 .group_size = options.group_size,
                 .axis = kvc::GroupAxis::tokens,
                 .precision = options.precision};
    format_.v = format_.k;
    format_.v.axis = kvc::GroupAxis::channels;
    format_.recent = options.recent;
    format_.k_chunk = options.recent > 0 ? options.recent : options.group_size;
  }

  void check_model(const kvc::ModelShape& model) const override {
    kvc::check_group_size("kivi", format_.v.group_size, model);
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
    return fraction * kvc::fp16_bytes(model, n_prompt_tokens + n_new_tokens);
  }

 private:
  KiviFormat format_;
};

}  // namespace

KVC_PLUGIN(
    KiviOptions, Kivi, "kivi", "quantization: K per channel, V per token, recent tokens uncompressed",
    "Liu et al. 2024 (KIVI), section 3.2 and algorithm 1",
    "real precision encodes with the fp16-rounded scale and zero; a constant group has scale 0; recent 0 is ours",
    {.one_by_one_same = true, .splits = true, .chunked_prompt = true, .formula = "GEAR"})
