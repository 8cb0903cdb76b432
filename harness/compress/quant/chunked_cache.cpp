#include "kvc/quant/chunked_cache.h"

#include <ATen/ATen.h>

namespace kvc {
namespace {

at::Tensor all_tokens(const std::vector<CorrectedCodes>& chunks, const TokenBlocks& recent) {
  std::vector<at::Tensor> parts;  // each [H_kv, t, D]
  for (const auto& chunk : chunks) parts.push_back(chunk.dequantize());
  if (recent.n_tokens() > 0) parts.push_back(recent.all());
  return parts.empty() ? at::Tensor() : at::cat(parts, 1);
}

}  // namespace

ChunkedCache::ChunkedCache(const LayerInfo& info, int64_t buffer, int64_t prompt_unit, Precision precision)
    : PartsCache(info),
      buffer_(buffer),
      prompt_unit_(prompt_unit),
      k_recent_(storage_type(precision)),
      v_recent_(storage_type(precision)) {}

void ChunkedCache::append(const NewTokens& tokens) {
  check_new_tokens(tokens);
  const bool prompt = tokens.kind != AppendKind::decoded;
  if (info().holds_k()) k_recent_.push_back(tokens.k);
  if (info().holds_v()) v_recent_.push_back(tokens.v);
  if (prompt) flush(n_recent() - n_recent() % prompt_unit_, true);
  while (n_recent() > buffer_) flush(buffer_, false);
}

void ChunkedCache::flush(int64_t n_tokens, bool prompt) {
  if (n_tokens == 0) return;
  const auto waiting = [&](TokenBlocks& recent, bool held) {
    return held ? recent.take_front(n_tokens) : at::Tensor();
  };
  const auto k_tokens = waiting(k_recent_, info().holds_k());
  auto [k, v] = encode(k_tokens, waiting(v_recent_, info().holds_v()), n_chunks_++, prompt);
  if (info().holds_k()) k_chunks_.push_back(std::move(k));
  if (info().holds_v()) v_chunks_.push_back(std::move(v));
  n_encoded_ += n_tokens;
}

void ChunkedCache::read_k(CompressedAttention& attention) const {
  int64_t first = 0;
  for (const auto& chunk : k_chunks_) {
    chunk.score(attention, first);
    first += chunk.n_tokens;
  }
  attention.score(k_recent_, n_encoded_);
}

void ChunkedCache::read_v(CompressedAttention& attention) const {
  int64_t first = 0;
  for (const auto& chunk : v_chunks_) {
    chunk.accumulate_v(attention, first);
    first += chunk.n_tokens;
  }
  attention.accumulate_v(v_recent_, n_encoded_);
}

KeyValue ChunkedCache::dequantize() const {
  return {all_tokens(k_chunks_, k_recent_), all_tokens(v_chunks_, v_recent_)};
}

Footprint ChunkedCache::footprint() const {
  Footprint bytes;
  for (const auto& chunk : k_chunks_) chunk.add_to(bytes, CacheTensor::k);
  for (const auto& chunk : v_chunks_) chunk.add_to(bytes, CacheTensor::v);
  k_recent_.add_to(bytes, CacheTensor::k);
  v_recent_.add_to(bytes, CacheTensor::v);
  return bytes;
}

std::vector<ProbedPart> ChunkedCache::probed_parts() const {
  std::vector<ProbedPart> parts;
  for (const auto& [name, chunks] : {std::pair{"k_mask", &k_chunks_}, std::pair{"v_mask", &v_chunks_}}) {
    if (chunks->empty() || !chunks->front().outliers.index.defined()) continue;
    const auto& chunk = chunks->front();
    const auto mask = outlier_mask(chunk.outliers, chunk.n_heads, chunk.n_tokens, chunk.head_dim);
    parts.push_back({name, mask.transpose(0, 1).reshape({chunk.n_tokens, chunk.n_heads * chunk.head_dim})});
  }
  return parts;
}

}  // namespace kvc
