// Which parts of caches attend_codes reads, and where its sums go.
#include "cuda/attend_codes.h"

#include <bit>

namespace kvc::cuda_attend {
namespace {

using cuda_products::Kind;

bool aligned(const void* data, int64_t to) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(to) == 0;
}

bool is_exact(const Matrix& x) {
  return (x.kind == Kind::f16 || x.kind == Kind::bf16) && aligned(x.rows.data, 16) &&
         x.row_bytes == int64_t{x.n_channels} * 2 && x.head_bytes % 16 == 0;
}

// A code stands for code - centre, and scales and zeros are fp16.
bool has_even_levels(const Matrix& x) {
  if (x.spread != Spread::none || x.scale.type != NumberType::f16) return false;
  if (x.zero.n > 0 && (x.zero.type != NumberType::f16 || x.centre != 0)) return false;
  if (x.kind == Kind::byte) return x.bits == 8;
  if (x.kind != Kind::level || (x.bits != 2 && x.bits != 4)) return false;
  for (int i = 0; i < 1 << x.bits; ++i) {
    if (x.levels[static_cast<size_t>(i)] != static_cast<float>(i) - x.centre) return false;
  }
  return true;
}

// Lanes read a token's row in pieces of up to 32 channels, each in one group.
bool are_rows_of_codes(const Matrix& x) {
  return !x.rows_are_channels && x.row_bytes == int64_t{x.n_channels} * x.bits / 8 && x.head_bytes % 16 == 0 &&
         aligned(x.rows.data, 16) && (x.n_groups == 1 || x.group_size % 32 == 0);
}

// A word of a channel's tokens lies in one group.
bool are_columns_of_codes(const Matrix& x) {
  const int codes = 32 / x.bits;
  return x.rows_are_channels && x.bits <= 4 && !x.one_scale && aligned(x.rows.data, 4) &&
         (x.n_groups == 1 ||
          (x.group_size % codes == 0 && std::has_single_bit(static_cast<unsigned>(x.group_size / codes))));
}

}  // namespace

bool serves(const Matrix& k, const Matrix& v) {
  const int dim = k.n_channels;
  if (v.n_channels != dim || v.n_heads != k.n_heads || (dim != 64 && dim != 96 && dim != 128 && dim != 256))
    return false;
  if (k.bits == 16) return is_exact(k) && is_exact(v) && k.kind == v.kind;
  if (dim == 96 && (k.bits == 2 || k.rows_are_channels)) return false;  // no whole words; too many registers
  return k.bits == v.bits && has_even_levels(k) && has_even_levels(v) && are_rows_of_codes(v) &&
         (are_rows_of_codes(k) || are_columns_of_codes(k));
}

int64_t workspace_floats(std::span<const Sequence> batch, const AttentionShape& heads) {
  int64_t parts = 0;
  for (const auto& sequence : batch) {
    for (const auto& segment : sequence.segments) parts += n_splits(segment);
  }
  return parts * heads.n_query * (heads.dim + 2);
}

}  // namespace kvc::cuda_attend
