#include "kvc/quant/code_book.h"

#include <ATen/ATen.h>

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
  const auto rows = rows_of(words, len, book);
  auto out = empty_for(words, len);
  const int64_t n = rows.n_rows * ((len + group_size - 1) / group_size);
  kernels::decode_groups(rows, floats_of(scale, n), floats_of(zero, n), group_size, out.data_ptr<float>());
  return out;
}

at::Tensor decode_channels(const at::Tensor& words, int64_t len, const CodeBook& book, const at::Tensor& scale,
                           const at::Tensor& zero) {
  auto out = empty_for(words, len);
  kernels::decode_channels(rows_of(words, len, book), floats_of(scale, len), floats_of(zero, len),
                           out.data_ptr<float>());
  return out;
}

}  // namespace kvc
