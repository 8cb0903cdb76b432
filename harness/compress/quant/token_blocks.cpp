#include "kvc/quant/token_blocks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "kernels/quantize_groups.h"
#include "kvc/quant/kept_tokens.h"
#include "kvc/value_checks.h"

namespace kvc {
namespace {

constexpr int64_t kBlockCodes = 64;  // tokens from which on a block of codes is closed

// Copies tokens [from, from + n) of src [H, T, X] to tokens [to, ...) of dst [H, T', X], both contiguous.
void copy_tokens(const at::Tensor& src, int64_t from, int64_t n, at::Tensor& dst, int64_t to) {
  if (!src.is_cpu()) {
    dst.narrow(1, to, n).copy_(src.narrow(1, from, n));
    return;
  }
  const int64_t row = src.size(2) * src.element_size();
  const auto* in = static_cast<const char*>(src.const_data_ptr());
  auto* out = static_cast<char*>(dst.data_ptr());
  for (int64_t h = 0; h < src.size(0); ++h) {
    std::memcpy(out + (h * dst.size(1) + to) * row, in + (h * src.size(1) + from) * row, static_cast<size_t>(n * row));
  }
}

at::Tensor tokens_of(const at::Tensor& x, int64_t from, int64_t n) {
  auto part = at::empty({x.size(0), n, x.size(2)}, x.options());
  copy_tokens(x, from, n, part, 0);
  return part;
}

at::Tensor joined(const at::Tensor& a, const at::Tensor& b, int64_t b_from, int64_t b_tokens) {
  auto both = at::empty({a.size(0), a.size(1) + b_tokens, a.size(2)}, a.options());
  copy_tokens(a, 0, a.size(1), both, 0);
  copy_tokens(b, b_from, b_tokens, both, a.size(1));
  return both;
}

at::Tensor stored(const at::Tensor& x, at::ScalarType type) {
  if (x.scalar_type() == type) return x.contiguous();
  if (type != at::kHalf || !x.is_cpu()) {
    const auto converted = x.to(type).contiguous();
    if (type == at::kHalf) check_values(converted.isfinite(), [] { return "a value is beyond fp16 (65504)"; });
    return converted;
  }
  const auto floats = x.to(at::kFloat).contiguous();
  auto halves = at::empty(x.sizes(), at::kHalf);
  KVC_CHECK(kernels::to_half(floats.const_data_ptr<float>(), floats.numel(), static_cast<uint16_t*>(halves.data_ptr())),
            "a value is beyond fp16 (65504)");
  return halves;
}

}  // namespace

void TokenBlocks::push_back(const at::Tensor& x) {
  const auto tokens = stored(x, type_);
  const int64_t n = tokens.size(1);
  int64_t done = 0;
  if (!blocks_.empty() && blocks_.back().size(1) < block_tokens_) {
    done = std::min(n, block_tokens_ - blocks_.back().size(1));
    blocks_.back() = joined(blocks_.back(), tokens, 0, done);
  }
  const int64_t whole = (n - done) / block_tokens_ * block_tokens_;  // read in one go, so they stand in one block
  const bool own = whole == n && !tokens.is_same(x) && !tokens.is_alias_of(x);
  if (whole > 0) blocks_.push_back(own ? tokens : tokens_of(tokens, done, whole));
  if (done + whole < n) blocks_.push_back(tokens_of(tokens, done + whole, n - done - whole));
  n_tokens_ += n;
}

void TokenBlocks::push_rows(const at::Tensor& x, const at::Tensor& index) {
  blocks_.push_back(keep_rows(stored(x, type_), index));
  n_tokens_ += index.size(1);
}

void TokenBlocks::keep_and_push(const at::Tensor& index, const at::Tensor& x) {
  const auto added = stored(x, type_);
  const auto held =
      blocks_.size() == 1 ? blocks_.front() : at::cat(std::vector<at::Tensor>(blocks_.begin(), blocks_.end()), 1);
  const bool fits = held.is_cpu() && held.size(1) == index.size(1) + added.size(1) && blocks_.size() == 1;
  auto block = fits ? held : keep_rows(held, index, added.size(1));
  if (fits) keep_rows_into(held, index, block);  // a step that evicts as much as it takes moves what is behind it
  block.narrow(1, index.size(1), added.size(1)).copy_(added);
  n_tokens_ = block.size(1);
  blocks_.assign(1, std::move(block));
}

at::Tensor TokenBlocks::in_floats(const at::Tensor& x) { return x.defined() ? x.to(at::kFloat) : x; }

at::Tensor TokenBlocks::copy_of_front(int64_t n_tokens) const {
  KVC_CHECK(n_tokens >= 0 && n_tokens <= n_tokens_, "TokenBlocks: ", n_tokens, " of ", n_tokens_, " tokens");
  if (n_tokens == 0) return {};
  auto result = at::empty({blocks_[0].size(0), n_tokens, blocks_[0].size(2)}, blocks_[0].options());
  int64_t done = 0;
  for (const auto& block : blocks_) {
    const int64_t n = std::min(block.size(1), n_tokens - done);
    if (n == 0) break;
    copy_tokens(block, 0, n, result, done);
    done += n;
  }
  return result;
}

at::Tensor TokenBlocks::take_front(int64_t n_tokens) {
  const bool in_one = n_tokens > 0 && !blocks_.empty() && blocks_.front().size(1) >= n_tokens;
  auto result = in_one ? blocks_.front().narrow(1, 0, n_tokens) : copy_of_front(n_tokens);
  n_tokens_ -= n_tokens;
  while (n_tokens > 0 && blocks_.front().size(1) <= n_tokens) {
    n_tokens -= blocks_.front().size(1);
    blocks_.pop_front();
  }
  if (n_tokens == 0) return result;
  const auto cut = blocks_.front();  // its rest in blocks of their usual size, since more will be taken from the front
  blocks_.pop_front();
  const int64_t n_rest = cut.size(1) - n_tokens, n_blocks = (n_rest + block_tokens_ - 1) / block_tokens_;
  for (int64_t block = n_blocks - 1; block >= 0; --block) {
    const int64_t from = block * block_tokens_;
    blocks_.push_front(tokens_of(cut, n_tokens + from, std::min(block_tokens_, n_rest - from)));
  }
  return result;
}

void TokenBlocks::add_to(Footprint& bytes, CacheTensor tensor, ByteKind kind) const {
  for (const auto& block : blocks_) bytes.add(tensor, kind, block);
}

void CodeBlocks::push_back(GroupCodes codes) {
  n_tokens_ += codes.n_tokens;
  if (blocks_.empty() || codes.format.axis == GroupAxis::tokens || blocks_.back().n_tokens >= kBlockCodes ||
      codes.format.merge_tokens || blocks_.back().format.merge_tokens) {
    blocks_.push_back(std::move(codes));
    return;
  }
  GroupCodes& open = blocks_.back();
  open.codes = joined(open.codes, codes.codes, 0, codes.n_tokens);
  open.scale = joined(open.scale, codes.scale, 0, codes.n_tokens);
  if (open.zero.defined()) open.zero = joined(open.zero, codes.zero, 0, codes.n_tokens);
  open.n_tokens += codes.n_tokens;
}

int64_t CodeBlocks::droppable(int64_t n_tokens) const {
  int64_t n_whole = 0;
  for (const auto& block : blocks_) {
    if (n_whole + block.n_tokens > n_tokens) return n_whole + block.droppable(n_tokens - n_whole);
    n_whole += block.n_tokens;
  }
  return n_whole;
}

void CodeBlocks::drop_front(int64_t n_tokens) {
  n_tokens_ -= n_tokens;
  auto first = blocks_.begin();
  for (; first != blocks_.end() && first->n_tokens <= n_tokens; ++first) n_tokens -= first->n_tokens;
  if (n_tokens > 0) *first = first->without_front(n_tokens);
  blocks_.erase(blocks_.begin(), first);
}

void CodeBlocks::add_to(Footprint& bytes, CacheTensor tensor) const {
  for (const auto& block : blocks_) block.add_to(bytes, tensor);
}

void StoredTokens::encode_front(int64_t n_tokens, const GroupFormat& format) {
  if (n_tokens > 0) codes.push_back(quantize_groups(recent.take_front(n_tokens), format));
}

int64_t StoredTokens::droppable(int64_t n) const {
  return codes.droppable(std::min(n, codes.n_tokens()));
}

void StoredTokens::drop_front(int64_t n) {
  const int64_t n_codes = std::min(n, codes.n_tokens());
  codes.drop_front(n_codes);
  if (n > n_codes) recent.drop_front(n - n_codes);
}

at::Tensor StoredTokens::dequantize() const {
  std::vector<at::Tensor> parts;  // each [H, t, D]
  for (const auto& block : codes.blocks()) parts.push_back(block.dequantize());
  if (recent.n_tokens() > 0) parts.push_back(recent.all());
  return parts.empty() ? at::Tensor() : at::cat(parts, 1);
}

void StoredTokens::add_to(Footprint& bytes, CacheTensor tensor) const {
  codes.add_to(bytes, tensor);
  recent.add_to(bytes, tensor);
}

}  // namespace kvc
