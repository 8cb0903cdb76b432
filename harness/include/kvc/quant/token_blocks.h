// Tokens in order of arrival. On the CPU in storage of exactly their size: closed blocks with one open block at either
// end, so that a step copies at most one block; tokens of one call are in one block.
// Bytes: n_tokens * H * D * 2 (4 with Precision::exact).
// On a device decoded tokens are put into room that is reserved (ByteKind::reserved): a block that is full moves into one
// of twice its size, with room for at most 1,024 more tokens, and from 8,192 tokens on another block begins. Where the
// thread has StepWrites, what a step stores is recorded there; whatever reads it has it written first.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <limits>
#include <vector>

#include "kvc/footprint.h"
#include "kvc/quant/group_quant.h"

namespace kvc {

class StepWrites;

constexpr int64_t kWholeBlock = std::numeric_limits<int64_t>::max();  // tokens per block: one block for all

// Uncompressed tokens: a recent window, a buffer, or a whole uncompressed cache.
class KVC_EXPORT TokenBlocks {
 public:
  explicit TokenBlocks(at::ScalarType type, int64_t block_tokens = 32) : type_(type), block_tokens_(block_tokens) {}

  void push_back(const at::Tensor& x);  // [H, T, D] of any float type; throws where fp16 cannot hold a value
  // Of bytes: to_float8(type, x, scale), scale [H or 1, 1, 1] fp32.
  void push_float8(Float8 type, const at::Tensor& x, const at::Tensor& scale);
  // On a device, the place [n_heads, 1, width] of one more token, which is written by `writes`.
  at::Tensor next_place(int64_t n_heads, int64_t width, const StepWrites& writes);
  void push_rows(const at::Tensor& x, const at::Tensor& index);  // the rows index [H, m] of x (keep_rows), as one block
  void keep_and_push(const at::Tensor& index, const at::Tensor& x);  // keeps only these, then appends x: one block
  at::Tensor front(int64_t n_tokens) const { return in_floats(copy_of_front(n_tokens)); }  // [H, n, D] fp32, the oldest
  at::Tensor take_front(int64_t n_tokens);  // removes and returns them, in the stored type
  at::Tensor pop_front(int64_t n_tokens) { return in_floats(take_front(n_tokens)); }
  int64_t droppable(int64_t n_tokens) const { return n_tokens - n_tokens % block_tokens_; }
  void drop_front(int64_t n_tokens) { take_front(n_tokens); }
  at::Tensor all() const { return front(n_tokens_); }
  int64_t n_tokens() const { return n_tokens_; }
  const std::deque<at::Tensor>& blocks() const;  // each [H, t, D], rows of D next to one another; on the CPU contiguous
  void add_to(Footprint& bytes, CacheTensor tensor, ByteKind kind = ByteKind::recent) const;

 private:
  at::Tensor copy_of_front(int64_t n_tokens) const;
  static at::Tensor in_floats(const at::Tensor& x);
  at::Tensor place_on_device(int64_t n_heads, int64_t width, at::Device device);
  void note_waiting(const StepWrites* writes);
  void push_on_device(const at::Tensor& x);
  void be_written(int64_t n_front) const;  // if one of the first n_front tokens waits in StepWrites

  at::ScalarType type_;
  int64_t block_tokens_;
  int64_t n_tokens_ = 0;
  std::deque<at::Tensor> blocks_;
  int64_t turn_ = 0, n_waiting_ = 0;  // of StepWrites, in which the newest n_waiting_ tokens were recorded
};

// Compressed tokens. Codes grouped along channels are merged into blocks; codes grouped along tokens stay in the chunk
// they were encoded in, because their groups end with it; the same holds for a chunk that is one group. On a device
// encode() makes one block of chunks of groups along tokens that have 512 tokens together.
class KVC_EXPORT CodeBlocks {
 public:
  void push_back(GroupCodes codes);
  void encode(const at::Tensor& x, const GroupFormat& format);  // quantize_groups(x, format), appended
  int64_t droppable(int64_t n_tokens) const;  // of the oldest n_tokens: whole blocks, and whole groups of the next one
  void drop_front(int64_t n_tokens);
  int64_t n_tokens() const { return n_tokens_; }
  const std::vector<GroupCodes>& blocks() const;
  void add_to(Footprint& bytes, CacheTensor tensor) const;

 private:
  bool takes_more(const GroupFormat& format, int64_t most_tokens) const;
  GroupCodes room_for(const at::Tensor& x, const GroupFormat& format, int64_t group);
  void be_written() const;
  void join_chunks();

  int64_t n_tokens_ = 0;
  std::vector<GroupCodes> blocks_;
  int64_t turn_ = 0;  // of StepWrites, in which the newest codes were recorded
};

// K or V of one layer: older tokens as codes, followed by uncompressed recent tokens.
struct KVC_EXPORT StoredTokens {
  explicit StoredTokens(Precision precision) : recent(storage_type(precision)) {}

  CodeBlocks codes;
  TokenBlocks recent;

  // Encodes the oldest n recent tokens.
  void encode_front(int64_t n_tokens, const GroupFormat& format);
  int64_t droppable(int64_t n_tokens) const;  // codes: groups of recent tokens begin where they would
  void drop_front(int64_t n_tokens);
  int64_t n_tokens() const { return codes.n_tokens() + recent.n_tokens(); }
  at::Tensor dequantize() const;  // [H, T, D] fp32; undefined without tokens
  void add_to(Footprint& bytes, CacheTensor tensor) const;
};

}  // namespace kvc
