#include "kvc/quant/code_book.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "kernels/code_books.h"
#include "kvc/quant/pack_bits.h"

namespace kvc {
namespace {

kernels::BookRows rows_of(const at::Tensor& words, int64_t len, const CodeBook& book) {
  KVC_CHECK(
      words.scalar_type() == at::kInt && words.is_contiguous() && words.size(-1) == n_packed_words(len, book.bits),
      "code book: words ", words.sizes(), " for ", len, " codes of ", book.bits, " bits");
  return {words.const_data_ptr<int32_t>(), words.size(-1), words.numel() / words.size(-1), len, book.levels, book.bits};
}

at::Tensor empty_for(const at::Tensor& words, int64_t len) {
  auto sizes = words.sizes().vec();
  sizes.back() = len;
  return at::empty(sizes, at::kFloat);
}

// levels[code] of words on a device, [..., len]
at::Tensor looked_up(const at::Tensor& words, int64_t len, const CodeBook& book) {
  const auto codes = unpack_bits(words, book.bits, len).to(at::kLong);
  const auto levels = at::tensor(at::ArrayRef<float>(book.levels, size_t{1} << book.bits)).to(words.device());
  return levels.index_select(0, codes.flatten()).view(codes.sizes());
}

// n floats; null where there are none
const float* floats_of(const at::Tensor& x, int64_t n) {
  if (!x.defined()) return nullptr;
  KVC_CHECK(x.scalar_type() == at::kFloat && x.is_contiguous() && x.numel() == n, "code book: scales or zeros ",
            x.sizes(), " of type ", x.scalar_type(), ", expected ", n, " floats");
  return x.const_data_ptr<float>();
}

}  // namespace

at::Tensor decode_groups(const at::Tensor& words, int64_t len, const CodeBook& book, const at::Tensor& scale,
                         const at::Tensor& zero, int64_t group_size) {
  if (!words.is_cpu()) {
    const auto of_entries = [&](const at::Tensor& x) { return x.repeat_interleave(group_size, -1).narrow(-1, 0, len); };
    const auto x = looked_up(words, len, book).mul_(of_entries(scale));
    return zero.defined() ? x + of_entries(zero) : x;
  }
  const auto rows = rows_of(words, len, book);
  auto out = empty_for(words, len);
  const int64_t n = rows.n_rows * ((len + group_size - 1) / group_size);
  kernels::decode_groups(rows, floats_of(scale, n), floats_of(zero, n), group_size, out.data_ptr<float>());
  return out;
}

at::Tensor decode_heads(const at::Tensor& words, int64_t n_heads, int64_t head_dim, const CodeBook& book,
                        const at::Tensor& scale, const at::Tensor& zero, BookScale of) {
  if (!words.is_cpu()) {
    const auto of_entries = [&](const at::Tensor& x) { return of == BookScale::rows ? x.unsqueeze(1) : x; };
    const auto x = looked_up(words, n_heads * head_dim, book).mul_(of_entries(scale)).add_(of_entries(zero));
    return x.view({-1, n_heads, head_dim}).transpose(0, 1).contiguous();
  }
  constexpr int64_t kLeastNumbers = 1 << 17;  // worth waking a thread for
  const auto rows = rows_of(words, n_heads * head_dim, book);
  const bool by_channel = of == BookScale::channels;
  const int64_t n_scales = by_channel ? rows.len : rows.n_rows;
  const float *by = floats_of(scale, n_scales), *from = floats_of(zero, n_scales);
  KVC_CHECK(by && from, "code book: heads need a scale and a zero");
  const bool whole = head_dim * book.bits % 32 == 0;  // or heads begin inside a word
  const int64_t n_parts = whole ? n_heads : 1, width = rows.len / n_parts;
  auto out = at::empty({n_parts, rows.n_rows, width}, at::kFloat);
  float* to = out.data_ptr<float>();
  at::parallel_for(0, rows.n_rows, std::max<int64_t>(1, kLeastNumbers / std::max<int64_t>(1, rows.len)),
                   [&](int64_t begin, int64_t end) {
                     auto some = rows;
                     some.words += begin * rows.n_words, some.n_rows = end - begin;
                     const int64_t first = by_channel ? 0 : begin;
                     kernels::decode_parts(some, n_parts, rows.n_rows * width, by + first, from + first, by_channel,
                                           to + begin * width);
                   });
  return whole ? out : out.view({rows.n_rows, n_heads, head_dim}).transpose(0, 1).contiguous();
}

}  // namespace kvc
