// K or V in one of llama.cpp's cache types: blocks of 32 consecutive channels of one head of one token, each with an fp16
// scale d and, for the _1 types, an fp16 minimum m. Encoding divides by the scale before it is rounded to fp16.
//   q8_0:        x^ = d q, |q| <= 127                        d = max |x| / 127
//   q4_0, q5_0:  x^ = d (q - 2^(b-1))                        d = x_top / -2^(b-1), x_top: of largest magnitude, signed
//   q4_1, q5_1:  x^ = d q + m                                d = (max - min) / (2^b - 1), m = min
//   iq4_nl:      x^ = d level[q], 16 fixed levels            d: least squares for the codes of x_top / level[0]
//   f32, f16, bf16: as they are
// Bytes per 32 channels: 34, 18, 22, 20, 24, 18; 128, 64, 64.
#pragma once

#include <kvc/quant/compressed_attention.h>
#include <kvc/quant/token_blocks.h>

#include <string>

namespace llama_cpp {

constexpr int64_t kBlock = 32;

struct Type {
  const char* name;
  int64_t bits;              // per code; of a float: of the number
  at::ScalarType exact;      // type of stored floats; Undefined if there are codes
  bool has_minimum = false;  // m
  bool has_levels = false;   // codes index levels
  bool is_quantized() const { return exact == at::ScalarType::Undefined; }
  int64_t low_bits() const { return bits == 5 ? 4 : bits; }  // the fifth bit is stored apart, as in ggml
};

const Type& type_named(const std::string& name);

// Codes of x [..., 32] fp32: u8 of the same shape, d and m [...] fp16 (m undefined if the type has none).
struct Blocks {
  at::Tensor codes, d, m;
};
Blocks encode(const at::Tensor& x, const Type& type);
at::Tensor decode(const Blocks& blocks, const Type& type);  // fp32

// q [..., D] as the engine multiplies it with keys of this type: in blocks of q8_0, or as the keys' floats. fp32.
at::Tensor rounded_query(const at::Tensor& q, const Type& of_keys);

class BlockTokens {
 public:
  BlockTokens(const Type& type, int64_t head_dim);

  void push_back(const at::Tensor& x);  // [H, t, D]
  int64_t n_tokens() const { return type_->is_quantized() ? low_.n_tokens() : exact_.n_tokens(); }
  int64_t n_encoded() const { return type_->is_quantized() ? n_tokens() : 0; }
  int64_t droppable(int64_t n_tokens) const { return low_.droppable(n_tokens); }
  void drop_front(int64_t n_tokens);
  at::Tensor dequantize() const;  // [H, T, D] fp32; undefined without tokens
  void score(kvc::CompressedAttention& attention) const;
  void accumulate_v(kvc::CompressedAttention& attention) const;
  void add_to(kvc::Footprint& bytes, kvc::CacheTensor tensor) const;

 private:
  bool write(const at::Tensor& x);  // of one token on a device, with the step's other writes; false: not of this type
  template <class F>
  void for_each_part(F f) const;  // f(GroupCodes or LevelCodes, index of the first token): parts add up

  const Type* type_;
  int64_t head_dim_;
  kvc::TokenBlocks low_, high_;  // words of four or eight bits; words of the fifth bits
  kvc::TokenBlocks scales_, minima_;
  kvc::TokenBlocks exact_;
};

}  // namespace llama_cpp
