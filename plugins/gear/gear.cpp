// GEAR: a quantized backbone, plus a low-rank part per head for its error, plus outliers: X^ = D^ + L + S.
// New tokens wait exactly in a buffer of nb; when it is full and the next token comes, K and V are encoded together as
// an immutable chunk. The prompt is one chunk (backbone kcvt), or its largest multiple of nb is (token_group, kivi).
// Bytes per layer: for each chunk of n tokens, rank r (rank for the prompt's chunk, decode_rank after), and each of K,
// V:
//   codes:    kivi K: H_kv*D*(n*b/8 + 4*n/g);  kivi V, token_group K and V: H_kv*n*(4*ceil(D*b/32) + 4*D/g)
//             kcvt K: H_kv*D*(4*ceil(n*b/32) + 4);  kcvt V: n*(H_kv*4*ceil(D*b/32) + 4)
//   low rank: 2*H_kv*r*(n + D), r at most min(n, D)
//   outliers: K, k = rne(s*n/2): 2k*H_kv*D*(2 + i);  V, k = rne(s*H_kv*D/2): 2k*n*(2 + i);  i = 1 up to 256 entries,
//   else 2
// plus 4*H_kv*D a token in the buffer.
#include <ATen/ATen.h>
#include <kvc/plugin.h>

#include <algorithm>

#include "gear_tensor.h"

namespace {

struct GearOptions {
  std::string backbone = "kcvt";
  int64_t bits = 4;
  int64_t group_size = 64;
  int64_t rank = 4;
  int64_t decode_rank = 2;
  int64_t loops = 3;
  double sparsity = 0.02;
  int64_t buffer = 0;
  std::string fill = "masked";
  int64_t seed = 0;
  std::string precision = "real";
  void visit(kvc::OptionVisitor& v) {
    v.choice("backbone", backbone, {"token_group", "kcvt", "kivi"}, "quantizer under the two corrections");
    v.integer_of("bits", bits, {2, 4, 8}, "bits per code");
    v.integer_of("group_size", group_size, {16, 32, 64, 128, 256}, "entries a group; not used by kcvt");
    v.integer("rank", rank, 0, 1024, "rank of the error's approximation in the prompt, per head; 0 for none");
    v.integer("decode_rank", decode_rank, 0, 1024, "the same in chunks of new tokens");
    v.integer("loops", loops, 1, 100, "power iterations");
    v.real("sparsity", sparsity, 0, 1, "fraction of outliers, half smallest and half largest; 0 is GEAR-L");
    v.integer("buffer", buffer, 0, kvc::kNoUpperLimit, "new tokens encoded together; 0: 20 for kcvt, 64 otherwise");
    v.choice("fill", fill, {"masked", "zero", "mean"}, "what stands for outliers when the rest is quantized");
    v.integer("seed", seed, 0, kvc::kNoUpperLimit, "seed of the power iteration's start");
    v.choice("precision", precision, {"real", "exact"}, "all floats in fp16, or fp32 to compare with references");
  }
};

struct GearFormat {
  gear::Format k, v;
  int64_t rank, decode_rank, buffer;
  int64_t prompt_unit;  // the prompt's chunk is the largest multiple of this
  uint64_t seed;
};

class GearCache final : public kvc::LayerCache {
 public:
  GearCache(const kvc::LayerInfo& info, const GearFormat& format) : LayerCache(info), format_(format) {}

  void append(const kvc::NewTokens& tokens) override {
    check_new_tokens(tokens);
    const bool prompt = length() == 0;
    k_recent_.push_back(tokens.k);
    v_recent_.push_back(tokens.v);
    if (prompt) encode(k_recent_.n_tokens() - k_recent_.n_tokens() % format_.prompt_unit, format_.rank);
    while (k_recent_.n_tokens() > format_.buffer) encode(format_.buffer, format_.decode_rank);
  }

  at::Tensor attend(const at::Tensor& q, double scale) const override {
    if (!kvc::DecodeStep::takes(q)) return LayerCache::attend(q, scale);
    kvc::DecodeStep step(q, scale, info(), length());
    for_each_chunk(k_chunks_, [&](const gear::Chunk& k, int64_t first) {
      step.score(k.codes, first);
      step.score(k.low_rank, first);
      step.score(k.outliers, first);
    });
    step.score(k_recent_, n_encoded_);
    step.softmax();
    for_each_chunk(v_chunks_, [&](const gear::Chunk& v, int64_t first) {
      step.weigh(v.codes, first);
      step.weigh(v.low_rank, first);
      step.weigh(v.outliers, first);
    });
    step.weigh(v_recent_, n_encoded_);
    return step.out();
  }

  kvc::KeyValue dequantize() const override {
    return {dequantize(k_chunks_, k_recent_), dequantize(v_chunks_, v_recent_)};
  }
  int64_t length() const override { return n_encoded_ + k_recent_.n_tokens(); }
  int64_t n_encoded_tokens() const override { return n_encoded_; }

  kvc::Footprint footprint() const override {
    kvc::Footprint bytes;
    for (const auto& chunk : k_chunks_) chunk.add_to(bytes, kvc::CacheTensor::k);
    for (const auto& chunk : v_chunks_) chunk.add_to(bytes, kvc::CacheTensor::v);
    k_recent_.add_to(bytes, kvc::CacheTensor::k);
    v_recent_.add_to(bytes, kvc::CacheTensor::v);
    return bytes;
  }

 private:
  void encode(int64_t n_tokens, int64_t rank) {
    if (n_tokens == 0) return;
    const auto block = static_cast<int64_t>(k_chunks_.size());
    auto generator = kvc::low_rank_generator(format_.seed, info().sequence_key, info().layer, block);
    k_chunks_.push_back(gear::encode(k_recent_.pop_front(n_tokens), format_.k, rank, generator));
    v_chunks_.push_back(gear::encode(v_recent_.pop_front(n_tokens), format_.v, rank, generator));
    n_encoded_ += n_tokens;
  }

  template <class F>
  static void for_each_chunk(const std::vector<gear::Chunk>& chunks, F f) {
    int64_t first = 0;
    for (const auto& chunk : chunks) {
      f(chunk, first);
      first += chunk.codes.n_tokens;
    }
  }

  static at::Tensor dequantize(const std::vector<gear::Chunk>& chunks, const kvc::TokenBlocks& recent) {
    std::vector<at::Tensor> parts;  // each [H_kv, t, D]
    for (const auto& chunk : chunks) parts.push_back(chunk.dequantize());
    if (recent.n_tokens() > 0) parts.push_back(recent.all());
    return at::cat(parts, 1);
  }

  GearFormat format_;
  std::vector<gear::Chunk> k_chunks_, v_chunks_;
  kvc::TokenBlocks k_recent_{kvc::storage_type(format_.k.precision)}, v_recent_{kvc::storage_type(format_.v.precision)};
  int64_t n_encoded_ = 0;
};

class Gear final : public kvc::Compressor {
 public:
  explicit Gear(const GearOptions& options) : options_(options) {
    const bool kcvt = options.backbone == "kcvt", kivi = options.backbone == "kivi";
    const auto precision = kvc::precision_named(options.precision);
    format_.buffer = options.buffer > 0 ? options.buffer : kcvt ? 20 : 64;
    KVC_CHECK(!kivi || format_.buffer % options.group_size == 0, "gear: buffer ", format_.buffer,
              " is not a multiple of group_size ", options.group_size);
    const kvc::GroupFormat groups{
        .bits = options.bits, .group_size = kcvt ? 0 : options.group_size, .precision = precision};
    format_.k = {.groups = groups,
                 .outlier_axis = kvc::GroupAxis::tokens,
                 .sparsity = options.sparsity,
                 .fill = options.fill == "masked" ? gear::Fill::masked
                         : options.fill == "zero" ? gear::Fill::zero
                                                  : gear::Fill::mean,
                 .loops = options.loops,
                 .precision = precision};
    format_.v = format_.k;
    format_.v.outlier_axis = kvc::GroupAxis::channels;
    if (kcvt || kivi) format_.k.groups.axis = kvc::GroupAxis::tokens;
    format_.v.groups.merge_heads = kcvt;
    format_.rank = options.rank, format_.decode_rank = options.decode_rank;
    format_.prompt_unit = kcvt ? 1 : format_.buffer;
    format_.seed = static_cast<uint64_t>(options.seed);
  }

  void check_model(const kvc::ModelShape& model) const override {
    KVC_CHECK(options_.backbone == "kcvt" || model.head_dim % options_.group_size == 0, "gear: group_size ",
              options_.group_size, " does not divide head_dim ", model.head_dim);
    KVC_CHECK(std::max(options_.rank, options_.decode_rank) <= model.head_dim, "gear: rank ",
              std::max(options_.rank, options_.decode_rank), " exceeds head_dim ", model.head_dim);
    KVC_CHECK(options_.sparsity == 0 || model.n_kv_heads * model.head_dim <= 65536,
              "gear: ", model.n_kv_heads * model.head_dim, " channels a token, outliers index up to 65536");
  }
  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<GearCache>(info, format_);
  }
  double bits() const override { return static_cast<double>(options_.bits); }

  // GEAR's tables, as fractions of the fp16 bytes: backbone + rho (1/D + 1/n) + outliers, where rho is rank/2 (factors
  // charged at 8 bits) and outliers cost s with kcvt (values alone) but 2s otherwise (value and index).
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    const double n = static_cast<double>(std::max<int64_t>(n_prompt_tokens, 1));
    const bool kcvt = options_.backbone == "kcvt";
    const double side = kcvt ? 2 / n + 2.0 / static_cast<double>(model.n_heads * model.head_dim)
                             : 2.0 / static_cast<double>(options_.group_size);
    const double rho = static_cast<double>(options_.rank) / 2;
    const double fraction = bits() / 16 + side + static_cast<double>(format_.buffer) / n +
                            rho * (1.0 / static_cast<double>(model.head_dim) + 1 / n) +
                            options_.sparsity * (kcvt ? 1 : 2);
    return fraction * 4.0 * static_cast<double>(model.n_kv_heads * model.head_dim * (n_prompt_tokens + n_new_tokens));
  }

 private:
  GearOptions options_;
  GearFormat format_;
};

}  // namespace

KVC_PLUGIN(
    GearOptions, Gear, "gear", "quantized backbone + low rank of its error + outliers",
    "Kang et al. 2024 (GEAR), section 3 and algorithms 1 and 2",
    "chunks are immutable and each is encoded once (the public code encodes the whole cache again at each flush); K's "
    "outliers are counted per chunk, not by token width; outliers are held as differences; a full buffer is encoded "
    "before the next token, not by dropping one",
    {})
