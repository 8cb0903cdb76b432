#include "kvc/quant/token_blocks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "kernels/quantize_groups.h"
#include "kvc/quant/kept_tokens.h"
#include "kvc/quant/small_floats.h"
#include "kvc/step_writes.h"
#include "kvc/value_checks.h"
#include "pieces.h"

namespace kvc {
namespace {

constexpr int64_t kBlockCodes = 64;     // tokens from which on a block of codes is closed
constexpr int64_t kMostRoom = 1024;     // on a device: tokens that a full block gets room for at once
constexpr int64_t kMostTokens = 8192;   // on a device: from which on a full block is closed
constexpr int64_t kJoinedTokens = 512;  // on a device: of chunks that become one; attend_codes reads no shorter ones

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

constexpr auto kBeyondHalf = [] { return "a value is beyond fp16 (65504)"; };

// On a device a block is a view [H, t, X] of [H, room, X]: how many tokens fit after its last one.
int64_t room_after(const at::Tensor& block) {
  const int64_t row = block.size(2), first = block.storage_offset() / row;
  const int64_t n_rows = static_cast<int64_t>(block.storage().nbytes()) / block.element_size() / row;
  const int64_t of_head = block.size(0) == 1 ? n_rows : block.stride(0) / row;  // one head's stride means nothing
  return of_head - first % of_head - block.size(1);
}

// Into what a step writes together, or at once.
void write_copy(const at::Tensor& from, const at::Tensor& to) {
  auto* writes = StepWrites::of_device(to.device());
  writes ? writes->copy(from, to) : static_cast<void>(to.copy_(from));
}

// The same tokens with room for n more.
at::Tensor with_room(const at::Tensor& block, int64_t n_tokens) {
  const int64_t n = block.size(1), room = std::max(n_tokens, std::min(n, kMostRoom));
  const auto wider = at::empty({block.size(0), n + room, block.size(2)}, block.options()).narrow(1, 0, n);
  write_copy(block, wider);
  return wider;
}

// The block with n more tokens, for which there is room.
at::Tensor longer(const at::Tensor& block, int64_t n) {
  return block.as_strided({block.size(0), block.size(1) + n, block.size(2)}, block.strides(), block.storage_offset());
}

at::Tensor stored(const at::Tensor& x, at::ScalarType type) {
  if (x.scalar_type() == type) return x.contiguous();
  if (type != at::kHalf || !x.is_cpu()) {
    const auto converted = x.to(type).contiguous();
    if (type == at::kHalf) check_values(converted.isfinite(), kBeyondHalf);
    return converted;
  }
  const auto floats = x.to(at::kFloat).contiguous();
  auto halves = at::empty(x.sizes(), at::kHalf);
  KVC_CHECK(kernels::to_half(floats.const_data_ptr<float>(), floats.numel(), static_cast<uint16_t*>(halves.data_ptr())),
            kBeyondHalf());
  return halves;
}

}  // namespace

void TokenBlocks::be_written(int64_t n_front) const {
  if (turn_ == 0 || blocks_.empty()) return;
  if (n_front > n_tokens_ - n_waiting_) StepWrites::run_if_waiting(turn_, blocks_.back().device());
}

const std::deque<at::Tensor>& TokenBlocks::blocks() const {
  be_written(n_tokens_);
  return blocks_;
}

// Room for one token [H, 1, D] of the last block, which is then one longer.
at::Tensor TokenBlocks::place_on_device(int64_t n_heads, int64_t width, at::Device device) {
  const auto* writes = StepWrites::of_device(device);
  if (blocks_.empty() || (room_after(blocks_.back()) == 0 && blocks_.back().size(1) >= kMostTokens)) {
    const int64_t room = std::min<int64_t>(block_tokens_, 64);
    blocks_.push_back(at::empty({n_heads, room, width}, at::TensorOptions(type_).device(device)).narrow(1, 0, 0));
  } else if (room_after(blocks_.back()) == 0) {
    be_written(n_tokens_);
    blocks_.back() = with_room(blocks_.back(), block_tokens_ == kWholeBlock ? 1 : block_tokens_);
    if (writes) turn_ = writes->turn(), n_waiting_ = n_tokens_;
  }
  const int64_t n = blocks_.back().size(1);
  blocks_.back() = longer(blocks_.back(), 1);
  ++n_tokens_;
  return blocks_.back().narrow(1, n, 1);
}

// The token that was put last.
void TokenBlocks::note_waiting(const StepWrites* writes) {
  if (!writes) return;
  n_waiting_ = turn_ == writes->turn() ? n_waiting_ + 1 : 1;
  turn_ = writes->turn();
}

at::Tensor TokenBlocks::next_place(int64_t n_heads, int64_t width, const StepWrites& writes) {
  const auto place = place_on_device(n_heads, width, writes.device());
  note_waiting(&writes);
  return place;
}

void TokenBlocks::push_on_device(const at::Tensor& x) {
  auto* writes = StepWrites::of_device(x.device());
  const auto place = place_on_device(x.size(0), x.size(2), x.device());
  if (writes && x.scalar_type() == type_) {
    writes->copy(x, place);
  } else if (writes && StepWrites::takes(x) && StepWrites::takes(place)) {
    const auto holds = writes->convert(x, place);
    if (type_ == at::kHalf) check_values(holds, kBeyondHalf);
  } else {
    place.copy_(stored(x, type_));
  }
  note_waiting(writes);
}

void TokenBlocks::push_float8(Float8 type, const at::Tensor& x, const at::Tensor& scale) {
  auto* writes = StepWrites::of_device(x.device());
  if (!writes || x.size(1) != 1 || !StepWrites::takes(x)) return push_back(to_float8(type, x, scale));
  writes->convert_to_float8(type, x, scale, next_place(x.size(0), x.size(2), *writes));
}

void TokenBlocks::push_back(const at::Tensor& x) {
  if (!x.is_cpu() && x.size(1) == 1) return push_on_device(x);
  be_written(n_tokens_);
  const auto tokens = stored(x, type_);
  const int64_t n = tokens.size(1);
  int64_t done = 0;
  if (x.is_cpu() && !blocks_.empty() && blocks_.back().size(1) < block_tokens_) {
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
  be_written(n_tokens_);
  blocks_.push_back(keep_rows(stored(x, type_), index));
  n_tokens_ += index.size(1);
}

void TokenBlocks::keep_and_push(const at::Tensor& index, const at::Tensor& x) {
  be_written(n_tokens_);
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
  be_written(n_tokens);
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
  if (n_tokens > 0) be_written(n_tokens);
  const bool in_one = n_tokens > 0 && !blocks_.empty() && blocks_.front().size(1) >= n_tokens;
  auto result = in_one ? blocks_.front().narrow(1, 0, n_tokens) : copy_of_front(n_tokens);
  n_tokens_ -= n_tokens;
  while (n_tokens > 0 && blocks_.front().size(1) <= n_tokens) {
    n_tokens -= blocks_.front().size(1);
    blocks_.pop_front();
  }
  if (n_tokens == 0) return result;
  const auto cut = blocks_.front();  // its rest in blocks of their usual size, since more will be taken from the front
  const int64_t n_rest = cut.size(1) - n_tokens, n_blocks = (n_rest + block_tokens_ - 1) / block_tokens_;
  if (!cut.is_cpu()) {  // while a model decodes the rest stays where it is, until the block has to move
    const bool stays = StepWrites::of_device(cut.device()) && cut.stride(0) / cut.size(2) <= 4 * n_rest + 256;
    if (!stays) be_written(n_tokens_);
    blocks_.front() = stays ? cut.narrow(1, n_tokens, n_rest) : tokens_of(cut, n_tokens, n_rest);
    return result;
  }
  blocks_.pop_front();
  for (int64_t block = n_blocks - 1; block >= 0; --block) {
    const int64_t from = block * block_tokens_;
    blocks_.push_front(tokens_of(cut, n_tokens + from, std::min(block_tokens_, n_rest - from)));
  }
  return result;
}

void TokenBlocks::add_to(Footprint& bytes, CacheTensor tensor, ByteKind kind) const {
  for (const auto& block : blocks_) bytes.add_used(tensor, kind, block);
}

void CodeBlocks::be_written() const {
  if (turn_ != 0 && !blocks_.empty()) StepWrites::run_if_waiting(turn_, blocks_.back().codes.device());
}

const std::vector<GroupCodes>& CodeBlocks::blocks() const {
  be_written();
  return blocks_;
}

// Whether tokens of this format go into the last block.
bool CodeBlocks::takes_more(const GroupFormat& format, int64_t most_tokens) const {
  return !blocks_.empty() && format.axis == GroupAxis::channels && blocks_.back().n_tokens < most_tokens &&
         !format.merge_tokens && !blocks_.back().format.merge_tokens;
}

namespace {

// f(part of to, part of from) of codes, scales and zeros
template <class F>
void for_each_tensor(GroupCodes& to, const GroupCodes& from, F f) {
  f(to.codes, from.codes);
  f(to.scale, from.scale);
  if (to.zero.defined()) f(to.zero, from.zero);
}

// The open block, with room for n more tokens, n tokens longer. -> what is new of it
GroupCodes lengthened(GroupCodes& open, int64_t n) {
  GroupCodes added = open;
  added.n_tokens = n;
  for_each_tensor(open, open, [&](at::Tensor& x, const at::Tensor&) {
    if (room_after(x) < n) x = with_room(x, std::max(n, kBlockCodes));
    x = longer(x, n);
  });
  for_each_tensor(added, open, [&](at::Tensor& to, const at::Tensor& x) { to = x.narrow(1, open.n_tokens, n); });
  open.n_tokens += n;
  return added;
}

// Whether a step's write encodes this: groups along tokens begin at whole words.
bool is_written(const at::Tensor& x, const GroupFormat& format) {
  if (!StepWrites::of_device(x.device()) || !StepWrites::takes(x) || format.merge_tokens) return false;
  const bool is_one = format.group_size == 0 || format.group_size == x.size(1);
  return format.axis == GroupAxis::channels || is_one || format.group_size * format.bits % 32 == 0;
}

}  // namespace

// Memory for the codes of x, after those that are here.
GroupCodes CodeBlocks::room_for(const at::Tensor& x, const GroupFormat& format, int64_t group) {
  be_written();
  n_tokens_ += x.size(1);
  if (takes_more(format, kMostTokens)) return lengthened(blocks_.back(), x.size(1));
  blocks_.push_back(codes_for(x, format, group));
  return blocks_.back();
}

// Chunks of groups along tokens, on a device: as many as attend_codes reads become one.
void CodeBlocks::join_chunks() {
  int64_t n = 0;
  auto first = blocks_.end();
  while (first != blocks_.begin() && std::prev(first)->n_tokens < kJoinedTokens &&
         std::prev(first)->n_tokens * std::prev(first)->format.bits % 32 == 0) {
    n += (--first)->n_tokens;
  }
  if (n < kJoinedTokens) return;
  be_written();
  for (auto next = std::next(first); next != blocks_.end(); ++next) *first = first->followed_by(*next);
  blocks_.erase(std::next(first), blocks_.end());
}

void CodeBlocks::encode(const at::Tensor& x, const GroupFormat& format) {
  const bool along_tokens = format.axis == GroupAxis::tokens;
  if (!is_written(x, format)) return push_back(quantize_groups(x, format));
  const int64_t group = group_length(x, format);
  const auto into = room_for(x, format, group);
  auto* writes = StepWrites::of_device(x.device());
  const DeviceWrite write{.what = along_tokens ? DeviceWrite::What::tokens : DeviceWrite::What::channels,
                          .to = StepWrites::rows_of(into.codes),
                          .scale = StepWrites::rows_of(into.scale),
                          .zero = into.zero.defined() ? StepWrites::rows_of(into.zero) : DeviceRows{},
                          .bits = static_cast<int>(format.bits),
                          .group_size = static_cast<int>(group),
                          .merge_heads = format.merge_heads};
  check_values(writes->encode(x, write, {into.codes, into.scale, into.zero}), codes_not_finite);
  turn_ = writes->turn();
  if (along_tokens) join_chunks();
}

void CodeBlocks::push_back(GroupCodes codes) {
  be_written();
  const bool is_cpu = codes.codes.is_cpu();
  n_tokens_ += codes.n_tokens;
  if (!takes_more(codes.format, is_cpu ? kBlockCodes : kMostTokens)) {
    blocks_.push_back(std::move(codes));
    return;
  }
  GroupCodes& open = blocks_.back();
  if (!is_cpu) {
    auto added = lengthened(open, codes.n_tokens);
    if (const auto* writes = StepWrites::of_device(open.codes.device())) turn_ = writes->turn();
    return for_each_tensor(added, codes, [](at::Tensor& to, const at::Tensor& from) { write_copy(from, to); });
  }
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
  be_written();
  n_tokens_ -= n_tokens;
  auto first = blocks_.begin();
  for (; first != blocks_.end() && first->n_tokens <= n_tokens; ++first) n_tokens -= first->n_tokens;
  if (n_tokens > 0) *first = first->without_front(n_tokens);
  blocks_.erase(blocks_.begin(), first);
}

void CodeBlocks::add_to(Footprint& bytes, CacheTensor tensor) const {
  for (const auto& block : blocks_) {
    bytes.add_used(tensor, ByteKind::codes, block.codes);
    bytes.add_used(tensor, ByteKind::scales, block.scale);
    bytes.add_used(tensor, ByteKind::zeros, block.zero);
  }
}

void StoredTokens::encode_front(int64_t n_tokens, const GroupFormat& format) {
  if (n_tokens > 0) codes.encode(recent.take_front(n_tokens), format);
}

int64_t StoredTokens::droppable(int64_t n) const { return codes.droppable(std::min(n, codes.n_tokens())); }

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
