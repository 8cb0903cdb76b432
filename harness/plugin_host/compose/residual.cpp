// A chain of a backbone and what stores its error.
#include <ATen/ATen.h>

#include <algorithm>

#include "compose/chain_kinds.h"

namespace kvc {
namespace {

// K or V of the tokens that wait: [H, n, D] fp16, in storage of exactly its size.
class Waiting {
 public:
  void push_back(const at::Tensor& x) {
    const auto halves = x.to(at::kHalf);
    KVC_CHECK(halves.isfinite().all().item<bool>(), "a value is beyond fp16 (65504)");
    tokens_ = tokens_.defined() ? at::cat({tokens_, halves}, 1) : halves.clone(at::MemoryFormat::Contiguous);
  }
  at::Tensor pop_front(int64_t n) {  // -> [H, n, D] fp32
    const auto front = tokens_.narrow(1, 0, n).to(at::kFloat).contiguous();
    const int64_t left = n_tokens() - n;
    tokens_ = left > 0 ? tokens_.narrow(1, n, left).clone(at::MemoryFormat::Contiguous) : at::Tensor();
    return front;
  }
  int64_t n_tokens() const { return tokens_.defined() ? tokens_.size(1) : 0; }
  const at::Tensor& tokens() const { return tokens_; }

 private:
  at::Tensor tokens_;
};

at::Tensor joined(const std::vector<at::Tensor>& parts) {  // each [H, t, D]
  return parts.empty() ? at::Tensor() : parts.size() == 1 ? parts[0] : at::cat(parts, 1);
}

// Chunks of tokens, each with a cache of every stage: x^ = sum over the stages. Chunks never change, so what a later
// stage holds stays the error of those before it: the error of their dequantize(), so that attention, too, sees that of
// all stages but the last, and the last one's attended(). The prompt's largest multiple of `block` is one chunk; new
// tokens wait in 16 bits until `block` of them are there and the next one comes. Bytes: those of the stages, and 4 *
// H_kv * D a waiting token.
class ResidualCache final : public ComposedCache {
 public:
  ResidualCache(const LayerInfo& info, const std::vector<Part>& stages, int n_stages, int64_t block)
      : ComposedCache(info, n_stages), stages_(stages), block_(block) {}

  KeyValue gather(Gather what) const override {
    std::vector<at::Tensor> k, v;
    for (const auto& chunk : chunks_) {
      const auto from = [&](size_t i) {
        return chunk[i].gather(what == Gather::attended && i + 1 < chunk.size() ? Gather::error_stored : what);
      };
      auto sum = from(0);
      for (size_t i = 1; i < chunk.size(); ++i) {
        const auto more = from(i);
        if (sum.k.defined()) sum.k = sum.k + more.k;
        if (sum.v.defined()) sum.v = sum.v + more.v;
      }
      k.push_back(sum.k), v.push_back(sum.v);
    }
    if (n_waiting() > 0) {
      if (info().holds_k()) k.push_back(k_.tokens().to(at::kFloat));
      if (info().holds_v()) v.push_back(v_.tokens().to(at::kFloat));
    }
    return {info().holds_k() ? joined(k) : at::Tensor(), info().holds_v() ? joined(v) : at::Tensor()};
  }
  // A stage's attention may see other vectors than the error of which a later stage has the rest.
  bool has_halves(const at::Tensor& q) const override {
    for (size_t i = 0; i < stages_.size(); ++i) {
      if (stages_[i].capabilities.estimates && i + 1 < stages_.size()) return false;
    }
    return std::all_of(chunks_.begin(), chunks_.end(), [&](const auto& chunk) {
      return std::all_of(chunk.begin(), chunk.end(),
                         [&](const PartCache& stage) { return stage.has_halves(q) && !stage.rounds(q); });
    });
  }
  void add_scores(const at::Tensor& q, double scale, const at::Tensor& to) const override {
    int64_t first = 0;
    for (const auto& chunk : chunks_) {
      const int64_t n = chunk[0]->length();
      for (const auto& stage : chunk) stage.add_scores(q, scale, to.narrow(2, first, n));
      first += n;
    }
    if (n_waiting() > 0) add_exact_scores(q, k_.tokens(), scale, to.narrow(2, first, n_waiting()));
  }
  at::Tensor mix(const at::Tensor& weights) const override {
    auto out = at::zeros({info().n_heads, weights.size(1), info().head_dim}, weights.options());
    int64_t first = 0;
    for (const auto& chunk : chunks_) {
      const int64_t n = chunk[0]->length();
      for (const auto& stage : chunk) out += stage.mix(weights.narrow(2, first, n));
      first += n;
    }
    if (n_waiting() > 0) out += exact_mix(weights.narrow(2, first, n_waiting()), v_.tokens());
    return out;
  }
  int64_t length() const override { return n_encoded_ + n_waiting(); }
  int64_t n_encoded_tokens() const override { return n_encoded_; }

 protected:
  void append_parts(const NewTokens& tokens) override {
    check_new_tokens(tokens);
    const bool prompt = length() == 0;
    if (info().holds_k()) k_.push_back(tokens.k);
    if (info().holds_v()) v_.push_back(tokens.v);
    if (prompt) encode(n_waiting() - n_waiting() % block_);
    while (n_waiting() > block_) encode(block_);
  }

  void add_parts(std::vector<StageUse>& uses) const override {
    uses[0].bytes.add(CacheTensor::k, ByteKind::recent, k_.tokens());
    uses[0].bytes.add(CacheTensor::v, ByteKind::recent, v_.tokens());
    for (const auto& chunk : chunks_) {
      for (const auto& stage : chunk) stage.add_to(uses);
    }
  }

 private:
  int64_t n_waiting() const { return (info().holds_k() ? k_ : v_).n_tokens(); }

  void encode(int64_t n) {
    if (n == 0) return;
    NewTokens left;  // what the stages so far do not hold
    if (info().holds_k()) left.k = k_.pop_front(n);
    if (info().holds_v()) left.v = v_.pop_front(n);
    auto of_chunk = info();
    of_chunk.sequence_key += 0x9e3779b97f4a7c15u * chunks_.size();  // each chunk has randomness of its own
    std::vector<PartCache> chunk;
    int first_stage = 1;
    for (const auto& stage : stages_) {
      chunk.emplace_back(first_stage, stage.compressor->make_cache(of_chunk));
      chunk.back().append(left);
      first_stage += stage.n_stages;
      if (chunk.size() == stages_.size()) break;
      const auto held = chunk.back().gather(Gather::held);
      if (left.k.defined()) left.k = left.k - held.k;
      if (left.v.defined()) left.v = left.v - held.v;
    }
    chunks_.push_back(std::move(chunk));
    n_encoded_ += n;
  }

  const std::vector<Part>& stages_;
  int64_t block_;
  std::vector<std::vector<PartCache>> chunks_;
  Waiting k_, v_;
  int64_t n_encoded_ = 0;
};

class Residual final : public Compressor {
 public:
  Residual(std::vector<Part> stages, int64_t block) : stages_(std::move(stages)), block_(block) {
    for (const auto& stage : stages_) n_stages_ += stage.n_stages;
  }

  void check_model(const ModelShape& model) const override {
    for (size_t i = 0; i < stages_.size(); ++i) {
      check_part(concat("stage ", i + 1, " (", stages_[i].name, ")"), stages_[i], model);
      if (i + 1 < stages_.size()) check_encodes(i, model);
    }
  }
  std::unique_ptr<LayerCache> make_cache(const LayerInfo& info) const override {
    return std::make_unique<ResidualCache>(info, stages_, n_stages_, block_);
  }
  double bits() const override { return stages_.front().compressor->bits(); }  // the backbone's
  double paper_bytes(const ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    double sum = 0;
    for (const auto& stage : stages_) sum += stage.compressor->paper_bytes(model, n_prompt_tokens, n_new_tokens);
    return sum;
  }

 private:
  // A stage that keeps a block's tokens exact leaves no error, then or ever: tried on a block of numbers.
  void check_encodes(size_t i, const ModelShape& model) const {
    const auto numbers = at::arange(model.n_kv_heads * block_ * model.head_dim, at::kFloat).sin_();
    const auto x = numbers.view({model.n_kv_heads, block_, model.head_dim});
    for (int64_t layer = 0; layer < model.n_layers; ++layer) {
      const auto cache = stages_[i].compressor->make_cache(layer_info(model, layer, 0, {}));
      cache->append({{}, x, x, 0});
      KVC_CHECK(cache->n_encoded_tokens() == block_, "chain: ", concat("stage ", i + 1, " (", stages_[i].name, ")"),
                " encodes ", cache->n_encoded_tokens(), " of a block of ", block_,
                " tokens and keeps the others uncompressed, so that the stages after it get no error; expected all: "
                "give it no window of recent tokens, or make `block` a multiple of its own block");
    }
  }

  std::vector<Part> stages_;
  int n_stages_ = 0;
  int64_t block_;
};

}  // namespace

std::unique_ptr<Compressor> make_residual(std::vector<Part> stages, int64_t block) {
  return std::make_unique<Residual>(std::move(stages), block);
}

}  // namespace kvc
