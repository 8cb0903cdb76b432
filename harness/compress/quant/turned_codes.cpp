#include "kvc/quant/turned_codes.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "kernels/turned_products.h"

namespace kvc {

struct TurnedScores::State {
  kernels::TurnedLayout layout;
  kernels::Turns turns;
  std::vector<float> levels;
  at::Tensor laid;  // [H_q, n_laid, 2, 16]
};

bool TurnedScores::takes(int64_t bits, int64_t head_dim) { return kernels::TurnedLayout::takes(bits, head_dim); }

TurnedScores::TurnedScores(const at::Tensor& q, const CodeBook& book, const at::Tensor& scale, const at::Tensor& zero,
                           std::span<const float> frequencies, int64_t position) {
  const int64_t n_queries = q.size(0), d = q.size(1), group = n_queries * d / scale.numel();
  for (const auto* x : {&q, &scale, &zero}) {
    KVC_CHECK(x->scalar_type() == at::kFloat && x->is_contiguous() && x->device() == at::kCPU,
              "turned codes: ", x->scalar_type(), " on ", x->device(), ", expected fp32 on the CPU, contiguous");
  }
  KVC_CHECK(scale.numel() == zero.numel() && group >= 1 && group * scale.numel() == n_queries * d,
            "turned codes: ", n_queries, " queries of ", d, " channels, ", scale.numel(), " scales, ", zero.numel(),
            " zeros");
  const kernels::TurnedLayout layout(book.bits, d);
  auto laid = at::empty({n_queries, layout.n_laid, 2, 16}, at::kFloat);
  for (int64_t i = 0; i < n_queries; ++i) {
    const int64_t first = i / group * d;
    kernels::lay_query(layout, q.const_data_ptr<float>() + i * d, scale.const_data_ptr<float>() + first,
                       zero.const_data_ptr<float>() + first, laid.data_ptr<float>() + i * layout.n_laid * 32);
  }
  state_ = std::make_unique<State>(
      State{layout, {layout, frequencies, position}, {book.levels, book.levels + (1 << book.bits)}, laid});
}

TurnedScores::~TurnedScores() = default;

at::Tensor TurnedScores::next(const at::Tensor& codes) {
  constexpr int64_t kLeastNumbers = 1 << 16;  // worth waking a thread for
  const auto& layout = state_->layout;
  const int64_t n_heads = codes.size(0), n = codes.size(1), n_queries = state_->laid.size(0);
  KVC_CHECK(codes.scalar_type() == at::kInt && codes.is_contiguous() && codes.size(2) == layout.n_words &&
                n_queries % n_heads == 0,
            "turned codes: codes ", codes.sizes(), " of type ", codes.scalar_type(), " for ", n_queries,
            " queries and rows of ", layout.n_words, " words");
  const int64_t group = n_queries / n_heads, stride = layout.n_laid * 32;
  auto scores = at::zeros({n_queries, n}, at::kFloat);
  state_->turns.next(n);
  at::parallel_for(0, n_heads, std::max<int64_t>(1, kLeastNumbers / std::max<int64_t>(1, n * layout.head_dim)),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t h = begin; h < end; ++h) {
                       kernels::score_turned_codes(
                           layout,
                           {.words = codes.const_data_ptr<int32_t>() + h * n * layout.n_words,
                            .n_tokens = n,
                            .levels = state_->levels.data(),
                            .tiles = state_->turns.tiles(),
                            .steps = state_->turns.steps()},
                           {state_->laid.const_data_ptr<float>() + h * group * stride, stride, group},
                           {scores.data_ptr<float>() + h * group * n, n, group});
                     }
                   });
  return scores;
}

}  // namespace kvc
