// The launch of write_rows.cuh.
#include <algorithm>

#include "cuda/write_rows.cuh"

namespace kvc::KVC_DEVICE {
namespace {

// What a kernel may touch: up to the last number of the last row.
RowsArgument argument_of(const DeviceRows& x, int64_t bytes_each, int n_heads, int n_tokens, int64_t width) {
  const int64_t n = (n_heads - 1) * x.head_stride + (n_tokens - 1) * x.token_stride + width;
  return {checked(static_cast<unsigned char*>(x.data), x.data ? static_cast<size_t>(n * bytes_each) : 0), x.head_stride,
          x.token_stride, x.type};
}

WriteArgument argument_of(const DeviceWrite& x) {
  using What = DeviceWrite::What;
  const bool is_bytes = x.what == What::bytes || x.what == What::floats8,
             is_codes = x.what == What::channels || x.what == What::tokens || x.what == What::blocks;
  const bool by_tokens = x.what == What::tokens;
  const auto rows = [&](const DeviceRows& r, int64_t width, int64_t bytes) {  // of what has codes' layout
    const int n_heads = x.merge_heads && &r != &x.to ? 1 : x.n_heads;
    return by_tokens ? argument_of(r, bytes, n_heads, 1, x.width * width)
                     : argument_of(r, bytes, n_heads, x.n_tokens, width);
  };
  const int length = by_tokens ? x.n_tokens : x.width,
            n_words = (length * (x.what == What::blocks && x.bits == 5 ? 4 : x.bits) + 31) / 32;
  const int n_groups = !is_codes || x.merge_heads ? 1 : length / x.group_size;
  return {.from = argument_of(x.from, x.what == What::bytes ? 1 : size_of(x.from.type), x.n_heads, x.n_tokens, x.width),
          .to = is_codes ? rows(x.to, n_words, 4)
                         : argument_of(x.to, is_bytes ? 1 : size_of(x.to.type), x.n_heads, x.n_tokens, x.width),
          .scale = rows(x.scale, n_groups, size_of(x.scale.type)),
          .zero = rows(x.zero, n_groups, size_of(x.zero.type)),
          .high = argument_of(x.high, 4, x.n_heads, x.n_tokens, (x.width + 31) / 32),
          .global = checked(x.global, x.global ? size_t{1} : size_t{0}),
          .holds = checked(reinterpret_cast<unsigned char*>(x.holds), x.holds ? static_cast<size_t>(x.n_blocks) : 0),
          .n_heads = x.n_heads,
          .n_tokens = x.n_tokens,
          .width = x.width,
          .factor = x.factor,
          .fill = x.fill,
          .bits = x.bits,
          .group_size = x.group_size,
          .n_blocks = x.n_blocks,
          .what = x.what,
          .floats = x.floats,
          .rule = x.rule,
          .has_from = x.from.data != nullptr,
          .has_to = x.to.data != nullptr,
          .has_zero = x.zero.data != nullptr,
          .has_holds = x.holds != nullptr,
          .merge_heads = x.merge_heads};
}

}  // namespace

void write_rows(std::span<const DeviceWrite> writes, void* stream) {
  while (!writes.empty()) {
    const auto some = writes.first(std::min<size_t>(writes.size(), kMostWrites));
    WriteTable table{};
    int n_blocks = 1;
    for (size_t i = 0; i < some.size(); ++i) {
      table.of[i] = argument_of(some[i]);
      n_blocks = std::max(n_blocks, some[i].n_blocks);
    }
    const dim3 grid(static_cast<unsigned>(n_blocks), static_cast<unsigned>(some.size()));
    KVC_LAUNCH(write_all, grid, dim3(kThreads), 0, static_cast<cudaStream_t>(stream), table);
    writes = writes.subspan(some.size());
  }
}

}  // namespace kvc::KVC_DEVICE
