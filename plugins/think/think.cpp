// ThinK: of the prompt's keys but the last `recent` the channels that its last queries and its keys need least are
// dropped, for each KV head its own; what stays is exact, values are. A channel's worth, over the G query heads of the
// KV head: (mean of its squares over the last `window` queries) * (mean of its squares over the prompt's keys).
// Keys of later tokens are whole. A query is read at the channels that are held.
// Bytes per layer, m = int(ratio * D) channels dropped of n = max(n0 - recent, 0) keys, T tokens:
//   H_kv * (2 * (D - m) * n + 2 * D * (T - n) + 2 * D * T), and where n > 0 and m > 0: + 2 * H_kv * (D - m)  channels
// precision exact: 4 bytes a number.
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/parts_cache.h>
#include <kvc/quant/shared_options.h>

#include <algorithm>

namespace {

struct ThinkOptions {
  double ratio = 0.4;
  int64_t window = 32, recent = 32;
  kvc::Precision precision = kvc::Precision::real;
  void visit(kvc::OptionVisitor& v) {
    v.real("ratio", ratio, 0, 0.99, "fraction of a key's channels to drop");
    v.integer("window", window, 1, kvc::kNoUpperLimit, "last queries of the prompt, which select the channels");
    v.integer("recent", recent, 0, kvc::kNoUpperLimit, "last keys of the prompt, kept complete");
    kvc::visit_precision(v, precision, "tokens");
  }
};

class ThinkCache final : public kvc::PartsCache {
 public:
  ThinkCache(const kvc::LayerInfo& info, const ThinkOptions& options)
      : PartsCache(info),
        options_(options),
        n_held_(info.head_dim - static_cast<int64_t>(options.ratio * static_cast<double>(info.head_dim))) {}

  void append(const kvc::NewTokens& tokens) override {
    check_new_tokens(tokens);
    const int64_t n = tokens.k.size(1);
    const int64_t n_pruned = length() == 0 && n_held_ < info().head_dim ? std::max<int64_t>(0, n - options_.recent) : 0;
    if (n_pruned > 0) {
      const auto channels = best_channels(tokens);
      pruned_.push_back(tokens.k.narrow(1, 0, n_pruned).gather(2, for_each(channels, 1, n_pruned)).contiguous());
      channels_ = channels.to(at::kShort);
    }
    if (n_pruned < n) k_.push_back(tokens.k.narrow(1, n_pruned, n - n_pruned));
    v_.push_back(tokens.v);
  }

  kvc::KeyValue dequantize() const override {  // dropped channels as 0
    std::vector<at::Tensor> parts;
    if (const int64_t n = pruned_.n_tokens(); n > 0) {
      const auto held = pruned_.all();
      auto k = at::zeros({held.size(0), n, info().head_dim}, held.options());
      parts.push_back(k.scatter_(2, for_each(channels_.to(at::kLong), 1, n), held));
    }
    if (k_.n_tokens() > 0) parts.push_back(k_.all());
    return {parts.empty() ? at::Tensor() : at::cat(parts, 1), v_.all()};
  }
  int64_t length() const override { return v_.n_tokens(); }
  int64_t n_encoded_tokens() const override { return pruned_.n_tokens(); }
  int64_t n_encoded_numbers() const override { return pruned_.n_tokens() * info().n_kv_heads * info().head_dim; }

  kvc::Footprint footprint() const override {
    kvc::Footprint bytes;
    pruned_.add_to(bytes, kvc::CacheTensor::k, kvc::ByteKind::codes);
    bytes.add(kvc::CacheTensor::k, kvc::ByteKind::index, channels_);
    k_.add_to(bytes, kvc::CacheTensor::k);
    v_.add_to(bytes, kvc::CacheTensor::v);
    return bytes;
  }

 private:
  void read_k(kvc::CompressedAttention& attention) const override {
    const int64_t n = pruned_.n_tokens();
    if (n > 0) {
      auto narrow = info();
      narrow.head_dim = n_held_, narrow.sliding_window = 0;
      const auto channels = for_each(channels_.to(at::kLong), info().n_heads / info().n_kv_heads, 1);
      kvc::CompressedAttention scores(attention.q().unsqueeze(1).gather(2, channels), 1, narrow, n);
      scores.score(pruned_, 0);
      attention.add_scores(scores.weights(), 0);
    }
    attention.score(k_, n);
  }
  void read_v(kvc::CompressedAttention& attention) const override { attention.accumulate_v(v_, 0); }

  // [H_kv, m] -> [H_kv * group, n, m], a view of each KV head's for its query heads and tokens
  static at::Tensor for_each(const at::Tensor& channels, int64_t group, int64_t n) {
    const auto rows = group == 1 ? channels : channels.repeat_interleave(group, 0);
    return rows.unsqueeze(1).expand({rows.size(0), n, rows.size(1)});
  }

  // [H_kv, n_held] int64, ascending: of equal worth the lower channel stays.
  at::Tensor best_channels(const kvc::NewTokens& prompt) const {
    const auto& q = prompt.q;
    const int64_t n = prompt.k.size(1), n_last = std::min(options_.window, n), n_kv = info().n_kv_heads;
    KVC_CHECK(q.defined(), "think: the prompt's queries select the channels, but there are none");
    KVC_CHECK(q.sizes() == at::IntArrayRef({info().n_heads, n, info().head_dim}), "think: q has shape ", q.sizes(),
              ", expected [", info().n_heads, ", ", n, ", ", info().head_dim, "]");
    const auto last = q.narrow(1, n - n_last, n_last).to(at::kDouble);
    const auto of_queries = last.square().mean(1).view({n_kv, -1, info().head_dim}).mean(1);
    const auto worth = of_queries * prompt.k.to(at::kDouble).square().mean(1);  // [H_kv, D]
    KVC_CHECK(worth.isfinite().all().item<bool>(), "think: q of layer ", info().layer,
              " has a value that is not finite");
    const auto order = std::get<1>(worth.sort(/*stable=*/true, /*dim=*/1, /*descending=*/true));
    return std::get<0>(order.narrow(1, 0, n_held_).sort(1));
  }

  const ThinkOptions& options_;                                     // the compressor's
  int64_t n_held_;                                                  // channels of a pruned key
  kvc::TokenBlocks pruned_{kvc::storage_type(options_.precision)};  // [H_kv, n, n_held]
  at::Tensor channels_;  // [H_kv, n_held] 16-bit, ascending; undefined until a prompt was pruned
  kvc::TokenBlocks k_{kvc::storage_type(options_.precision)}, v_{kvc::storage_type(options_.precision)};
};

class Think final : public kvc::PartsCompressor {
 public:
  explicit Think(const ThinkOptions& options) : options_(options) {}

  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<ThinkCache>(info, options_);
  }
  double bits() const override { return kvc::bits_of(options_.precision); }

  // Half of the fp16 bytes are K's, of whose pruned tokens 1 - ratio stay; the paper counts no indices.
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    const int64_t n_pruned = std::max<int64_t>(0, n_prompt_tokens - options_.recent);
    return kvc::fp16_bytes(model, n_prompt_tokens + n_new_tokens) -
           options_.ratio / 2 * kvc::fp16_bytes(model, n_pruned);
  }

 private:
  ThinkOptions options_;
};

}  // namespace

KVC_PLUGIN(
    ThinkOptions, Think, "think",
    "channel pruning: drops the channels of the prompt's keys that its last queries need least",
    "Xu et al. 2024 (ThinK, arXiv 2407.21018), section 4, and its public code",
    "a KV head's channels are chosen by the mean over its query heads, where the public code repeats K for each; "
    "all prompt tokens are kept (there SnapKV or H2O may evict some before)",
    {.formula = "ThinK"})
