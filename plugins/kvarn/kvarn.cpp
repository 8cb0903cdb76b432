// KVarN: tiles of G tokens of one KV head, rotated by a Hadamard matrix along the channels, divided by a factor per
// column that makes the deviations of rows and columns even (balance.h), then quantized asymmetrically per row:
//   K: a row is a channel of the tile, a column a token;   V: a row is a token, a column a channel;
//   x^ = (scale * code + zero) * factor, rotated back.
// Rows' factors need no place of their own: scale and zero of a row take them up.
// The first `sinks` tokens and those that do not fill a tile yet are exact. Codes of a tile never change.
// Bytes per layer, n_t tiles, T tokens, a KV head:
//   n_t * (D*4*ceil(G*b_K/32) + 4*D + 2*G + G*4*ceil(D*b_V/32) + 4*G + 2*D) + 4 * D * (T - n_t*G);
// D = G = 128: 4.375 bits a number of K at 4 bits, 2.375 of V at 2. precision exact: 4 bytes where 2 stand.
// attend() rotates the query once and what comes out of V's tiles once.
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/shared_options.h>
#include <kvc/quant/tensor_pair_cache.h>

#include <algorithm>
#include <bit>

#include "balance.h"

namespace {

struct KvarnOptions {
  int64_t k_bits = 4, v_bits = 2, tile = 128, sinks = 128, rounds = 16;
  kvc::Precision precision = kvc::Precision::real;
  void visit(kvc::OptionVisitor& v) {
    v.integer_of("k_bits", k_bits, {2, 4, 8}, "bits per code of K");
    v.integer_of("v_bits", v_bits, {2, 4, 8}, "bits per code of V");
    v.integer_of("tile", tile, {16, 32, 64, 128, 256}, "tokens per tile: balanced and quantized together");
    v.integer("sinks", sinks, 0, kvc::kNoUpperLimit, "first tokens, kept uncompressed");
    v.integer("rounds", rounds, 0, 1000,
              "iterations of dividing a tile by the deviations of its columns and rows; 0: none");
    kvc::visit_precision(v, precision, "scales, zeros, factors, uncompressed tokens");
  }
};

at::Tensor rotated(const at::Tensor& x) {  // [.., D] -> fp32
  auto out = x.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true, at::MemoryFormat::Contiguous);
  if (!out.is_cpu()) return kvarn::rotated_on_device(out);
  kvarn::rotate_rows(out.data_ptr<float>(), out.numel() / out.size(-1), out.size(-1));
  return out;
}

constexpr int64_t kTilesTogether = 16;  // of each head, on a device

struct Tile {
  kvc::GroupCodes codes;  // of the rotated tile over its factors
  at::Tensor factors;     // K: [H, G, 1], V: [H, 1, D]
};

// K or V of one layer.
class KvarnTensor {
 public:
  KvarnTensor(const KvarnOptions& options, kvarn::Columns columns)
      : options_(options),
        columns_(columns),
        format_{.bits = by_token() ? options.k_bits : options.v_bits,
                .axis = by_token() ? kvc::GroupAxis::tokens : kvc::GroupAxis::channels,
                .precision = options.precision},
        sinks_(kvc::storage_type(options.precision)),
        recent_(kvc::storage_type(options.precision)) {}

  void push_back(const at::Tensor& x) {  // [H, T, D]
    const int64_t n_sinks = std::min(options_.sinks - sinks_.n_tokens(), x.size(1));
    if (n_sinks > 0) sinks_.push_back(x.narrow(1, 0, n_sinks));
    if (n_sinks < x.size(1)) recent_.push_back(x.narrow(1, n_sinks, x.size(1) - n_sinks));
    const int64_t n = recent_.n_tokens() - recent_.n_tokens() % options_.tile;
    if (n == 0) return;
    const auto waited = recent_.take_front(n);
    const int64_t some = options_.tile * (x.is_cpu() ? 1 : kTilesTogether);
    for (int64_t first = 0; first < n; first += some) encode(waited.narrow(1, first, std::min(some, n - first)));
  }

  int64_t n_encoded() const { return static_cast<int64_t>(tiles_.size()) * options_.tile; }
  int64_t n_tokens() const { return sinks_.n_tokens() + n_encoded() + recent_.n_tokens(); }

  void score(kvc::CompressedAttention& attention) const {
    attention.score(sinks_, 0);
    const auto q = tiles_.empty() ? at::Tensor() : rotated(attention.q());
    for_each_tile([&](const Tile& tile, int64_t first) {
      attention.score(q, tile.codes, first);
      auto scores = attention.weights(first, options_.tile);  // [H_q, G], of this tile alone until now
      scores.unflatten(0, {tile.factors.size(0), -1}).mul_(tile.factors.transpose(1, 2));
    });
    attention.score(recent_, sinks_.n_tokens() + n_encoded());
  }

  void accumulate_v(kvc::CompressedAttention& attention) const {
    attention.accumulate_v(sinks_, 0);
    std::vector<std::pair<at::Tensor, at::Tensor>> parts;  // sums [H_q, D], rotated, and the tile's factors
    for_each_tile([&](const Tile& tile, int64_t first) {
      parts.emplace_back(at::zeros_like(attention.q()), tile.factors);
      attention.accumulate_v(tile.codes, first, parts.back().first);
    });
    if (!parts.empty()) {
      attention.then([&attention, parts] {
        at::Tensor sum;
        for (const auto& [sums, factors] : parts) {
          const auto part = sums.unflatten(0, {factors.size(0), -1}).mul(factors).flatten(0, 1);
          sum = sum.defined() ? sum.add_(part) : part;
        }
        attention.add_out(rotated(sum));
      });
    }
    attention.accumulate_v(recent_, sinks_.n_tokens() + n_encoded());
  }

  at::Tensor dequantize() const {  // [H, T, D] fp32
    std::vector<at::Tensor> parts;
    if (sinks_.n_tokens() > 0) parts.push_back(sinks_.all());
    for_each_tile([&](const Tile& tile, int64_t) { parts.push_back(rotated(tile.codes.dequantize() * tile.factors)); });
    if (recent_.n_tokens() > 0) parts.push_back(recent_.all());
    return parts.empty() ? at::Tensor() : at::cat(parts, 1);
  }

  void add_to(kvc::Footprint& bytes, kvc::CacheTensor tensor) const {
    for (const auto& tile : tiles_) {
      tile.codes.add_to(bytes, tensor);
      bytes.add(tensor, kvc::ByteKind::norms, tile.factors);
    }
    sinks_.add_to(bytes, tensor);
    recent_.add_to(bytes, tensor);
  }

 private:
  bool by_token() const { return columns_ == kvarn::Columns::tokens; }

  // Of x [H, n, G, D], [H, n, G or 1, 1 or D]
  at::Tensor factors_of(const at::Tensor& x) const {
    if (!x.is_cpu()) return kvarn::column_factors_on_device(x, columns_, options_.rounds);
    const int64_t n_tiles = x.size(0) * x.size(1), n_tokens = x.size(2), head_dim = x.size(3);
    auto factors = at::empty({x.size(0), x.size(1), by_token() ? n_tokens : 1, by_token() ? 1 : head_dim}, at::kDouble);
    const auto* numbers = x.const_data_ptr<float>();
    auto* out = factors.data_ptr<double>();
    for (int64_t i = 0; i < n_tiles; ++i) {
      const auto of_tile =
          kvarn::column_factors(numbers + i * n_tokens * head_dim, n_tokens, head_dim, columns_, options_.rounds);
      out = std::copy(of_tile.begin(), of_tile.end(), out);
    }
    return factors;
  }

  // tokens: [H, n G, D]; copied once, rotated and divided there: a step leaves few holes in the process's memory
  void encode(const at::Tensor& tokens) {
    auto x = rotated(tokens).unflatten(1, {-1, options_.tile});
    const auto factors = factors_of(x).to(kvc::storage_type(options_.precision));  // as the decoder has them
    x.div_(factors.to(at::kFloat));
    for (int64_t i = 0; i < x.size(1); ++i) {
      tiles_.push_back({kvc::quantize_groups(x.select(1, i), format_), factors.select(1, i).clone()});
    }
  }

  template <class F>
  void for_each_tile(F f) const {  // f(tile, index of its first token)
    int64_t first = sinks_.n_tokens();
    for (const auto& tile : tiles_) {
      f(tile, first);
      first += options_.tile;
    }
  }

  const KvarnOptions& options_;
  kvarn::Columns columns_;
  kvc::GroupFormat format_;
  kvc::TokenBlocks sinks_, recent_;
  std::vector<Tile> tiles_;
};

class Kvarn final : public kvc::PartsCompressor {
 public:
  explicit Kvarn(const KvarnOptions& options) : options_(options) {}

  void check_model(const kvc::ModelShape& model) const override {
    KVC_CHECK(model.head_dim >= 2 && std::has_single_bit(static_cast<uint64_t>(model.head_dim)), "kvarn: head_dim ",
              model.head_dim, ", allowed: a power of two, which a Hadamard matrix needs");
  }
  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<kvc::TensorPairCache<KvarnTensor>>(info, KvarnTensor(options_, kvarn::Columns::tokens),
                                                               KvarnTensor(options_, kvarn::Columns::channels));
  }
  double bits() const override { return static_cast<double>(options_.k_bits + options_.v_bits) / 2; }

  // b + 32/(a row's numbers) + 16/(a column's), K and V, of the tokens in tiles; 16 bits of the others.
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    const int64_t n = n_prompt_tokens + n_new_tokens, after_sinks = std::max<int64_t>(0, n - options_.sinks);
    const int64_t n_encoded = after_sinks - after_sinks % options_.tile;
    const double scale_zero = 24.0 / static_cast<double>(options_.tile) + 24.0 / static_cast<double>(model.head_dim);
    return (bits() + scale_zero) / 16 * kvc::fp16_bytes(model, n_encoded) + kvc::fp16_bytes(model, n - n_encoded);
  }

 private:
  KvarnOptions options_;
};

}  // namespace

KVC_PLUGIN(
    KvarnOptions, Kvarn, "kvarn", "quantization: Hadamard rotation, variance-normalized tiles, asymmetric codes",
    "KVarN 2026 (arXiv 2606.03458)",
    "factors are applied after rounding to fp16, as in the decoder; a row's factor is part of its scale and zero, "
    "which are computed from the row itself; no quantile is clipped; a constant row has scale 0",
    {.one_by_one_same = true, .prefix_local = true, .splits = true, .chunked_prompt = true, .formula = "KVarN"})
