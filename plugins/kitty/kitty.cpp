// Kitty: K in pages of G tokens, 2 bits a channel, but 4 for the share of a page's channels whose mean magnitude is
// largest; V 2 bits a token in groups of channels. The first `sinks` tokens, K's tokens that fill no page yet and V's
// newest G are exact. Codes are asymmetric: x^ = scale * code + zero.
// A decode step appends, attends, then encodes: what is due waits for the next append.
// A page holds its channels in an order of its own, those of 4 bits first, with the place of each; the query is taken
// there, so that each part is codes of one width.
// Bytes per layer and KV head, n_k = whole pages * G and n_v encoded tokens of T, P channels of 4 bits, groups of g:
//   K: n_k/G * ((D - P)*4*ceil(2*G/32) + P*4*ceil(4*G/32) + 4*D + D) + 2*D*(T - n_k)
//   V: n_v * (D/g * 4*ceil(2*g/32) + 4*D/g) + 2*D*(T - n_v);   precision exact: 4 bytes a scale, zero or exact number.
// D above 256: 2*D instead of D for the places.
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/parts_cache.h>
#include <kvc/quant/shared_options.h>
#include <kvc/quant/token_blocks.h>

#include <algorithm>

namespace {

struct KittyOptions {
  double promote_ratio = 0.25;
  int64_t page = 128, sinks = 32;
  kvc::Precision precision = kvc::Precision::real;
  void visit(kvc::OptionVisitor& v) {
    v.real("promote_ratio", promote_ratio, 0, 1, "fraction of K's channels with 4 bits instead of 2, in each page");
    v.integer_of("page", page, {16, 32, 64, 128, 256},
                 "page size: tokens of K compressed together, and uncompressed recent tokens of V");
    v.integer("sinks", sinks, 0, kvc::kNoUpperLimit, "first tokens, kept uncompressed");
    kvc::visit_precision(v, precision, "scales, zeros, uncompressed tokens");
  }
  int64_t n_promoted(int64_t head_dim) const {
    return std::min(head_dim, static_cast<int64_t>(static_cast<double>(head_dim) * promote_ratio + 1e-6));
  }
};

constexpr int64_t kGroup = 128;  // of V's channels; heads that it does not divide are one group

kvc::GroupFormat key_format(const KittyOptions& options, int64_t bits) {
  return {.bits = bits, .axis = kvc::GroupAxis::tokens, .precision = options.precision};
}

kvc::GroupFormat value_format(const KittyOptions& options, int64_t head_dim) {
  return {.bits = 2,
          .group_size = head_dim % kGroup == 0 ? kGroup : head_dim,
          .axis = kvc::GroupAxis::channels,
          .precision = options.precision};
}

// Pages of K.
class Pages {
 public:
  explicit Pages(const KittyOptions& options) : options_(options) {}

  void push_back(const at::Tensor& tokens) {  // [H, n * G, D]
    std::vector<at::Tensor> places;
    for (int64_t first = 0; first < tokens.size(1); first += options_.page) {
      places.push_back(encode(tokens.narrow(1, first, options_.page).to(at::kFloat)));
    }
    const auto more = at::stack(places);
    places_ = places_.defined() ? at::cat({places_, more}) : more;
  }

  int64_t n_tokens() const { return static_cast<int64_t>(pages_.size()) * options_.page; }

  void score(kvc::CompressedAttention& attention, int64_t first) const {
    if (pages_.empty()) return;
    const int64_t n_heads = places_.size(1), d = places_.size(2), n_promoted = options_.n_promoted(d);
    const auto q = attention.q().view({1, n_heads, -1, d});
    const auto taken = [&](int64_t from, int64_t n) {  // the query's channels from .. in each page: [pages, H_q, n]
      const auto index = places_.narrow(2, from, n).to(at::kLong).unsqueeze(2);
      const std::vector<int64_t> of_pages = {index.size(0), n_heads, q.size(2), d};
      return q.expand(of_pages).gather(3, index.expand({-1, -1, q.size(2), -1})).flatten(1, 2).contiguous();
    };
    const auto wide = taken(0, n_promoted), narrow = taken(n_promoted, d - n_promoted);
    for (size_t i = 0; i < pages_.size(); ++i, first += options_.page) {
      const auto page = static_cast<int64_t>(i);
      if (n_promoted > 0) attention.score(wide[page], pages_[i].wide, first);
      if (n_promoted < d) attention.score(narrow[page], pages_[i].narrow, first);
    }
  }

  void dequantize_to(std::vector<at::Tensor>& parts) const {  // each [H, G, D] fp32
    for (size_t i = 0; i < pages_.size(); ++i) {
      std::vector<at::Tensor> channels;
      for (const auto* codes : {&pages_[i].wide, &pages_[i].narrow}) {
        if (codes->codes.defined()) channels.push_back(codes->dequantize());
      }
      const auto held = at::cat(channels, 2);
      const auto places = places_[static_cast<int64_t>(i)].to(at::kLong).unsqueeze(1).expand_as(held);
      parts.push_back(at::empty_like(held).scatter_(2, places, held));
    }
  }

  void add_to(kvc::Footprint& bytes) const {
    for (const auto& page : pages_) {
      for (const auto* codes : {&page.wide, &page.narrow}) {
        if (codes->codes.defined()) codes->add_to(bytes, kvc::CacheTensor::k);
      }
    }
    bytes.add(kvc::CacheTensor::k, kvc::ByteKind::index, places_);
  }

 private:
  struct Page {
    kvc::GroupCodes wide, narrow;  // of 4 and 2 bits; undefined without channels
  };

  // x [H, G, D] -> where each held channel belongs, [H, D]; those of 4 bits first, either in ascending order
  at::Tensor encode(const at::Tensor& x) {
    const int64_t d = x.size(2), n_promoted = options_.n_promoted(d);
    const auto ranked = std::get<1>(x.abs().mean(1).sort(/*stable=*/true, 1, /*descending=*/true));
    const auto ascending = [&](int64_t from, int64_t n) { return std::get<0>(ranked.narrow(1, from, n).sort(1)); };
    const auto places = at::cat({ascending(0, n_promoted), ascending(n_promoted, d - n_promoted)}, 1);
    const auto sorted = x.gather(2, places.unsqueeze(1).expand_as(x));
    Page page;
    if (n_promoted > 0) {
      page.wide = kvc::quantize_groups(sorted.narrow(2, 0, n_promoted).contiguous(), key_format(options_, 4));
    }
    if (n_promoted < d) {
      const auto rest = sorted.narrow(2, n_promoted, d - n_promoted).contiguous();
      page.narrow = kvc::quantize_groups(rest, key_format(options_, 2));
    }
    pages_.push_back(std::move(page));
    return places.to(d <= 256 ? at::kByte : at::kShort);
  }

  const KittyOptions& options_;
  std::vector<Page> pages_;
  at::Tensor places_;  // [pages, H, D]
};

class KittyCache final : public kvc::PartsCache {
 public:
  KittyCache(const kvc::LayerInfo& info, const KittyOptions& options)
      : PartsCache(info),
        options_(options),
        v_format_(value_format(options, info.head_dim)),
        k_sinks_(kvc::storage_type(options.precision)),
        v_sinks_(kvc::storage_type(options.precision)),
        k_recent_(kvc::storage_type(options.precision)),
        pages_(options),
        v_(options.precision) {}

  void append(const kvc::NewTokens& tokens) override {
    check_new_tokens(tokens);
    const bool prompt = length() == 0;
    if (info().holds_k()) push(tokens.k, k_sinks_, k_recent_);
    if (info().holds_v()) push(tokens.v, v_sinks_, v_.recent);
    const auto due = [&](int64_t n_recent) { return std::max<int64_t>(n_recent - (prompt ? 0 : 1), 0); };
    const int64_t n_k = due(k_recent_.n_tokens()) / options_.page * options_.page;
    if (n_k > 0) pages_.push_back(k_recent_.take_front(n_k));
    v_.encode_front(std::max<int64_t>(due(v_.recent.n_tokens()) - options_.page, 0), v_format_);
  }

  kvc::KeyValue dequantize() const override {
    std::vector<at::Tensor> k, v;
    if (k_sinks_.n_tokens() > 0) k.push_back(k_sinks_.all());
    pages_.dequantize_to(k);
    if (k_recent_.n_tokens() > 0) k.push_back(k_recent_.all());
    if (v_sinks_.n_tokens() > 0) v.push_back(v_sinks_.all());
    if (v_.n_tokens() > 0) v.push_back(v_.dequantize());
    return {k.empty() ? at::Tensor() : at::cat(k, 1), v.empty() ? at::Tensor() : at::cat(v, 1)};
  }

  int64_t length() const override {
    return std::max(k_sinks_.n_tokens() + pages_.n_tokens() + k_recent_.n_tokens(),
                    v_sinks_.n_tokens() + v_.n_tokens());
  }
  int64_t n_encoded_tokens() const override { return std::max(pages_.n_tokens(), v_.codes.n_tokens()); }
  int64_t n_encoded_numbers() const override {
    return (pages_.n_tokens() + v_.codes.n_tokens()) * info().n_kv_heads * info().head_dim;
  }

  kvc::Footprint footprint() const override {
    kvc::Footprint bytes;
    k_sinks_.add_to(bytes, kvc::CacheTensor::k);
    pages_.add_to(bytes);
    k_recent_.add_to(bytes, kvc::CacheTensor::k);
    v_sinks_.add_to(bytes, kvc::CacheTensor::v);
    v_.add_to(bytes, kvc::CacheTensor::v);
    return bytes;
  }

 private:
  void read_k(kvc::CompressedAttention& attention) const override {
    attention.score(k_sinks_, 0);
    pages_.score(attention, k_sinks_.n_tokens());
    attention.score(k_recent_, k_sinks_.n_tokens() + pages_.n_tokens());
  }
  void read_v(kvc::CompressedAttention& attention) const override {
    attention.accumulate_v(v_sinks_, 0);
    attention.accumulate_v(v_, v_sinks_.n_tokens());
  }

  void push(const at::Tensor& x, kvc::TokenBlocks& sinks, kvc::TokenBlocks& recent) const {
    const int64_t n = std::clamp<int64_t>(options_.sinks - sinks.n_tokens(), 0, x.size(1));
    if (n > 0) sinks.push_back(x.narrow(1, 0, n));
    if (n < x.size(1)) recent.push_back(x.narrow(1, n, x.size(1) - n));
  }

  const KittyOptions& options_;
  kvc::GroupFormat v_format_;
  kvc::TokenBlocks k_sinks_, v_sinks_, k_recent_;
  Pages pages_;
  kvc::StoredTokens v_;  // behind the sinks
};

class Kitty final : public kvc::PartsCompressor {
 public:
  explicit Kitty(const KittyOptions& options) : options_(options) {}

  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<KittyCache>(info, options_);
  }
  double bits() const override { return 2 + options_.promote_ratio; }  // (2 + 2 * ratio + 2) / 2

  // The public kernels' pages: 2 bits a number, 2 more of promoted channels, a byte, scale and minimum a channel of K;
  // scale and minimum a token of V. V waits there until a page of it is full; sinks, buffers: 16 bits.
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    const int64_t n = n_prompt_tokens + n_new_tokens, behind = std::max<int64_t>(0, n - options_.sinks);
    const int64_t d = model.head_dim, page = options_.page;
    const int64_t n_k = behind / page, n_v = std::max<int64_t>(0, behind - page) / page;
    const int64_t of_k = n_k * ((d + options_.n_promoted(d)) * page / 4 + 5 * d), of_v = n_v * page * (d / 4 + 4);
    const int64_t exact = 2 * d * (2 * n - (n_k + n_v) * page);
    return static_cast<double>(model.n_kv_heads * (of_k + of_v + exact));
  }

 private:
  KittyOptions options_;
};

}  // namespace

KVC_PLUGIN(KittyOptions, Kitty, "kitty",
           "quantization: K per channel with 2 bits, some channels 4; V per token with 2 bits",
           "Xia et al. 2025 (Kitty, arXiv 2511.18643), and its public code",
           "a page's 4-bit channels are stored together instead of in two planes of 2 bits (same size); V is "
           "encoded token by token, where the kernels wait for a page; scale and zero are rounded before codes are "
           "taken; a constant group has scale 0",
           {.one_by_one_same = true, .splits = true, .chunked_prompt = true, .formula = "Kitty"})
