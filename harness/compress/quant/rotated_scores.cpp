#include "kvc/quant/rotated_scores.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "kernels/rotated_products.h"

namespace kvc {

struct RotatedScores::State {
  kernels::RotatedLayout layout;
  kernels::RotationTables rotations;
  std::vector<float> levels;
  at::Tensor packed_q;  // [H_q, n_packed, 2, 16]
};

bool RotatedScores::takes(int64_t bits, int64_t head_dim) { return kernels::RotatedLayout::takes(bits, head_dim); }

RotatedScores::RotatedScores(const at::Tensor& q, const CodeBook& book, const at::Tensor& scale, const at::Tensor& zero,
                             std::span<const float> frequencies, int64_t position) {
  const int64_t n_queries = q.size(0), d = q.size(1), group = n_queries * d / scale.numel();
  for (const auto* x : {&q, &scale, &zero}) {
    KVC_CHECK(x->scalar_type() == at::kFloat && x->is_contiguous() && x->device() == at::kCPU,
              "rotated codes: ", x->scalar_type(), " on ", x->device(), ", expected fp32 on the CPU, contiguous");
  }
  KVC_CHECK(scale.numel() == zero.numel() && group >= 1 && group * scale.numel() == n_queries * d,
            "rotated codes: ", n_queries, " queries of ", d, " channels, ", scale.numel(), " scales, ", zero.numel(),
            " zeros");
  const kernels::RotatedLayout layout(book.bits, d);
  auto packed_q = at::empty({n_queries, layout.n_packed, 2, 16}, at::kFloat);
  for (int64_t i = 0; i < n_queries; ++i) {
    const int64_t first = i / group * d;
    kernels::pack_query(layout, q.const_data_ptr<float>() + i * d, scale.const_data_ptr<float>() + first,
                        zero.const_data_ptr<float>() + first, packed_q.data_ptr<float>() + i * layout.n_packed * 32);
  }
  state_ = std::make_unique<State>(
      State{layout, {layout, frequencies, position}, {book.levels, book.levels + (1 << book.bits)}, packed_q});
}

RotatedScores::~RotatedScores() = default;

at::Tensor RotatedScores::next(const at::Tensor& codes) {
  constexpr int64_t kLeastNumbers = 1 << 16;  // worth waking a thread for
  const auto& layout = state_->layout;
  const int64_t n_heads = codes.size(0), n = codes.size(1), n_queries = state_->packed_q.size(0);
  KVC_CHECK(codes.scalar_type() == at::kInt && codes.is_contiguous() && codes.size(2) == layout.n_words &&
                n_queries % n_heads == 0,
            "rotated codes: codes ", codes.sizes(), " of type ", codes.scalar_type(), " for ", n_queries,
            " queries and rows of ", layout.n_words, " words");
  const int64_t group = n_queries / n_heads, stride = layout.n_packed * 32;
  auto scores = at::zeros({n_queries, n}, at::kFloat);
  state_->rotations.next(n);
  at::parallel_for(0, n_heads, std::max<int64_t>(1, kLeastNumbers / std::max<int64_t>(1, n * layout.head_dim)),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t h = begin; h < end; ++h) {
                       kernels::score_rotated_codes(
                           layout,
                           {.words = codes.const_data_ptr<int32_t>() + h * n * layout.n_words,
                            .n_tokens = n,
                            .levels = state_->levels.data(),
                            .tiles = state_->rotations.tiles(),
                            .steps = state_->rotations.steps()},
                           {state_->packed_q.const_data_ptr<float>() + h * group * stride, stride, group},
                           {scores.data_ptr<float>() + h * group * n, n, group});
                     }
                   });
  return scores;
}

}  // namespace kvc
