// DecoQuant: a chunk of K or V is the product of a large tensor T_L and small ones T_S; T_L is quantized (symmetric,
// one step a token), T_S only where small_bits asks for it (one step a row). The prompt is one chunk; new tokens wait
// exactly and become a chunk when `buffer` of them are full and the next comes. A decode step takes the query through
// T_S instead of rebuilding K. Bytes per layer, form icl, D_all = H_kv*D, chunks of n tokens, c = factor (64, 128 with
// 3, 4 tensors), m waiting tokens, for each of K, V:
//   sum over chunks [ n * p * 4*ceil((D_all/c * r / p) * b/32) codes + 2n steps + 2|T_S| ] + 2 * m * D_all,
//   r = min(n * D_all/c, c), p parts a row: H_kv where c divides D, D_all/c where D divides c, else 1;
//   |T_S| = r*c (2 tensors), 8r*r' + 8r' with r' = min(8r, 8) (3), 8r*r' + 4r'*r'' + 4r'' with r' = min(8r, 16),
//   r'' = min(4r', 4) (4).
// Forms lm, svd, qr: r = min(n, D_all), factors n x r and r x D_all: 4*ceil(r*b/32) + 2 a row of the quantized one, 2 a
// number of the other. bits 16: 2 a number. small_bits s < 16: a row of a small tensor (of [r, f, r'] w = f*r' numbers;
// of the other factor's w = r or, where it is B, D_all) takes 4*ceil(w*s/32) + 2 instead of 2w. precision exact: 4 for
// each 2.
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/probed_parts.h>
#include <kvc/quant/parts_cache.h>
#include <kvc/quant/shared_options.h>

#include "chunk.h"

namespace {

struct DecoQuantOptions {
  int64_t bits = 4;
  int64_t small_bits = 16;
  std::string form = "icl";
  int64_t tensors = 2;
  int64_t factor = 16;
  int64_t buffer = 1024;
  kvc::Precision precision = kvc::Precision::real;
  void visit(kvc::OptionVisitor& v) {
    v.integer_of("bits", bits, {2, 4, 8, 16}, "bits per code of the large tensor; 16: not quantized");
    v.integer_of("small_bits", small_bits, {2, 4, 8, 16}, "bits per code of the small tensors; 16: not quantized");
    v.choice("form", form, {"icl", "lm", "svd", "qr"},
             "what is decomposed: tokens x channel blocks, channels x tokens, or the matrix by SVD or QR");
    v.integer_of("tensors", tensors, {2, 3, 4}, "tensors of form icl");
    v.integer("factor", factor, 2, 4096, "channels of the small tensor with 2 tensors; divides n_kv_heads * head_dim");
    kvc::visit_buffer(v, buffer);
    kvc::visit_precision(v, precision, "steps, small tensors, buffer");
  }
};

using Chunks = std::vector<decoquant::Chunk>;

class DecoQuantCache final : public kvc::PartsCache, public kvc::ProbedParts {
 public:
  DecoQuantCache(const kvc::LayerInfo& info, const decoquant::Format& format, int64_t buffer)
      : PartsCache(info), format_(format), buffer_(buffer) {}

  void append(const kvc::NewTokens& tokens) override {
    check_new_tokens(tokens);
    const bool prompt = length() == 0;
    if (info().holds_k()) k_recent_.push_back(tokens.k);
    if (info().holds_v()) v_recent_.push_back(tokens.v);
    if (prompt) encode(n_recent());
    while (n_recent() > buffer_) encode(buffer_);
  }

  kvc::KeyValue dequantize() const override {
    return {dequantize(k_chunks_, k_recent_), dequantize(v_chunks_, v_recent_)};
  }
  int64_t length() const override { return n_encoded_ + n_recent(); }
  int64_t n_encoded_tokens() const override { return n_encoded_; }

  kvc::Footprint footprint() const override {
    kvc::Footprint bytes;
    for (const auto& chunk : k_chunks_) chunk.add_to(bytes, kvc::CacheTensor::k);
    for (const auto& chunk : v_chunks_) chunk.add_to(bytes, kvc::CacheTensor::v);
    k_recent_.add_to(bytes, kvc::CacheTensor::k);
    v_recent_.add_to(bytes, kvc::CacheTensor::v);
    return bytes;
  }

  std::vector<kvc::ProbedPart> probed_parts() const override {
    std::vector<kvc::ProbedPart> parts;
    for (const auto& [tensor, chunks] : {std::pair{"k", &k_chunks_}, std::pair{"v", &v_chunks_}}) {
      if (chunks->empty()) continue;
      parts.push_back({std::string(tensor) + "_t_l", chunks->front().large_tensor()});
      parts.push_back({std::string(tensor) + "_t_s", chunks->front().small_tensors()});
    }
    return parts;
  }

 private:
  bool has_parts() const override { return attends_; }
  void read_k(kvc::CompressedAttention& attention) const override {
    int64_t first = 0;
    for (const auto& k : k_chunks_) {
      k.score(attention, first);
      first += k.n_tokens;
    }
    attention.score(k_recent_, first);
  }
  void read_v(kvc::CompressedAttention& attention) const override {
    int64_t first = 0;
    for (const auto& v : v_chunks_) {
      v.accumulate_v(attention, first);
      first += v.n_tokens;
    }
    attention.accumulate_v(v_recent_, first);
  }

  void encode(int64_t n_tokens) {
    if (info().holds_k()) encode(n_tokens, k_recent_, k_chunks_);
    if (info().holds_v()) encode(n_tokens, v_recent_, v_chunks_);
    n_encoded_ += n_tokens;
  }
  void encode(int64_t n_tokens, kvc::TokenBlocks& recent, Chunks& chunks) {
    chunks.push_back(decoquant::encode(recent.pop_front(n_tokens), format_));
    attends_ = attends_ && chunks.back().attends();
  }
  int64_t n_recent() const { return (info().holds_k() ? k_recent_ : v_recent_).n_tokens(); }

  static at::Tensor dequantize(const Chunks& chunks, const kvc::TokenBlocks& recent) {
    std::vector<at::Tensor> parts;  // each [H_kv, t, D]
    for (const auto& chunk : chunks) parts.push_back(chunk.dequantize());
    if (recent.n_tokens() > 0) parts.push_back(recent.all());
    return parts.empty() ? at::Tensor() : at::cat(parts, 1);
  }

  decoquant::Format format_;
  int64_t buffer_;
  Chunks k_chunks_, v_chunks_;
  kvc::TokenBlocks k_recent_{kvc::storage_type(format_.precision)}, v_recent_{kvc::storage_type(format_.precision)};
  int64_t n_encoded_ = 0;
  bool attends_ = true;  // each chunk can attend in its own basis
};

decoquant::Form form_named(const std::string& name) {
  if (name == "lm") return decoquant::Form::lm;
  if (name == "svd") return decoquant::Form::svd;
  return name == "qr" ? decoquant::Form::qr : decoquant::Form::icl;
}

class DecoQuant final : public kvc::PartsCompressor {
 public:
  explicit DecoQuant(const DecoQuantOptions& options) : options_(options) {
    KVC_CHECK(options.form == "icl" || options.tensors == 2, "decoquant: form ", options.form, " has 2 tensors, not ",
              options.tensors);
    format_ = {.form = form_named(options.form),
               .bits = options.bits,
               .small_bits = options.small_bits,
               .factors = options.tensors == 2   ? std::vector<int64_t>{options.factor}
                          : options.tensors == 3 ? std::vector<int64_t>{8, 8}
                                                 : std::vector<int64_t>{8, 4, 4},
               .precision = options.precision};
  }

  void check_model(const kvc::ModelShape& model) const override {
    int64_t c = 1;
    for (const int64_t factor : format_.factors) c *= factor;
    KVC_CHECK(options_.form != "icl" || model.n_kv_heads * model.head_dim % c == 0, "decoquant: factor ", c,
              " does not divide the ", model.n_kv_heads * model.head_dim, " channels of all KV heads");
  }
  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<DecoQuantCache>(info, format_, options_.buffer);
  }
  double bits() const override { return static_cast<double>(format_.bits); }

  // Table 2: b/16 of the fp16 bytes, steps and T_S not counted (the paper's formula for the ratio counts both).
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    return bits() / 16 * kvc::fp16_bytes(model, n_prompt_tokens + n_new_tokens);
  }

 private:
  DecoQuantOptions options_;
  decoquant::Format format_;
};

}  // namespace

KVC_PLUGIN(
    DecoQuantOptions, DecoQuant, "decoquant", "quantization: matrix product operator, whose large tensor is quantized",
    "Liu et al. 2024 (DecoQuant), section 3 and algorithm 1",
    "K is decomposed after RoPE (the public scripts take the outputs of k_proj); weights are not quantized (W16A_); "
    "the decomposition goes through a Gram matrix in float64; a full buffer is encoded before the next token; "
    "attention takes the query through the small tensor (the paper's kernel rebuilds the matrix); form lm always "
    "quantizes the channel tensor; factors of 3 and 4 tensors, the groups of svd and qr and the steps of small_bits "
    "are ours",
    {.splits = true, .formula = "DecoQuant"})
