// Which of a step's parts cuda/attend_codes.h attends to.
#include <ATen/ATen.h>

#include <algorithm>
#include <optional>

#include "device_step.h"

namespace kvc::on_device {
namespace {

using namespace cuda_products;

// Fewer tokens of a part are products': a launch costs as much, and products round nothing to fp16.
constexpr int kLeastTokens = cuda_attend::kSplitTokens;

const cuda_attend::Kernels& attend_kernels_for(at::Device device) {
#ifdef KVC_HAVE_CUDA
  if (device.is_cuda()) return cuda::attend_kernels();
#endif
  return cuda_emulated::attend_kernels();
}

bool stand_in(const float* x, const QueryRows& all) {
  return x >= all.data && x < all.data + (all.n - 1) * all.stride + all.width;
}
// Whether these are some columns of all heads.
bool are_columns(const QueryRows& x, const QueryRows& all) {
  return x.n == all.n && x.stride == all.stride && x.data < all.data + all.width;
}

int tokens_of(const Matrix& x) { return x.n_tokens - x.first_token; }

void skip(NumberArray& x, int64_t n) {
  if (!x.data) return;
  x.data = static_cast<const char*>(x.data) + n * size_of(x.type);
  x.n -= n;
}

// The same from token n on.
Matrix from_token(Matrix x, int n) {
  if (x.rows_are_channels) {
    x.first_token += n;
    return x;
  }
  x.rows.data = static_cast<const char*>(x.rows.data) + n * x.row_bytes;
  x.rows.n -= n * x.row_bytes;
  const int64_t n_scales = x.one_scale ? 0 : int64_t{n} * x.n_groups;
  skip(x.scale, n_scales), skip(x.zero, n_scales);
  x.n_tokens -= n;
  return x;
}

QueryRows from_column(QueryRows x, int n) {
  x.data += n, x.width -= n;
  return x;
}

// The first record whose columns(part) begin at `first`, if it may be read so; alone: if no other one has any of the
// next n.
template <class Record, class Columns>
Record* one_at(std::vector<Record>& list, const QueryRows& all, int first, int n, bool alone, Columns columns) {
  Record* found = nullptr;
  for (auto& x : list) {
    const QueryRows& its = columns(x.part);
    if (!stand_in(its.data, all)) continue;
    const int64_t from = its.data - all.data;
    const bool fits = from == first && x.fits;
    if (alone && from < first + n && from + its.width > first && (found || !fits)) return nullptr;
    if (fits && !found) found = &x;
  }
  return found;
}

// Leaves of a record what is behind its first n tokens.
template <class Record>
void drop_tokens(std::vector<Record>& list, Record* record, int n, Matrix& matrix, QueryRows& columns) {
  if (tokens_of(matrix) == n) {
    list.erase(list.begin() + (record - list.data()));
    return;
  }
  matrix = from_token(matrix, n);
  columns = from_column(columns, n);
}

}  // namespace

// Whether all that gives these scores, and that they are the weights of, is recorded, and is of all heads.
bool Step::is_whole(const Softmax& softmax) const {
  const auto& all = softmax.scores;
  const auto whole = [&](const QueryRows& x) { return !stand_in(x.data, all) || are_columns(x, all); };
  return std::none_of(apart_.begin(), apart_.end(), [&](const float* x) { return stand_in(x, all); }) &&
         std::all_of(scores_.begin(), scores_.end(), [&](const auto& x) { return whole(x.part.scores); }) &&
         std::all_of(v_sums_.begin(), v_sums_.end(), [&](const auto& x) { return whole(x.part.weights); });
}

// Whether these are products with matrices alone, to one sum.
bool Step::is_plain(const Softmax& softmax) const {
  const auto& all = softmax.scores;
  const auto own_score = [&](const auto& x) { return stand_in(x.part.scores.data, all); };
  const auto own_weight = [&](const auto& x) { return stand_in(x.part.weights.data, all); };
  if (std::any_of(score_entries_.begin(), score_entries_.end(), own_score) ||
      std::any_of(v_entry_sums_.begin(), v_entry_sums_.end(), own_weight)) {
    return false;
  }
  std::optional<int> target;
  for (const auto& x : v_sums_) {
    if (!own_weight(x)) continue;
    if (target && *target != x.target) return false;
    target = x.target;
  }
  return true;
}

// Takes from the lists what attend_codes reads of one sequence: parts of K and V of the same tokens, from the first on.
Step::Segments Step::segments_of(const Softmax& softmax, bool alone) {
  Segments found;
  found.alone = alone;
  const auto& all = softmax.scores;
  const auto k_at = [&](int first, int n) {
    return one_at(scores_, all, first, n, alone, [](const Score& x) -> const QueryRows& { return x.scores; });
  };
  const auto v_at = [&](int first, int n) {
    return one_at(v_sums_, all, first, n, alone, [](const AccumulateV& x) -> const QueryRows& { return x.weights; });
  };
  while (found.n_tokens < all.width) {
    const int first = found.n_tokens;
    auto* k = k_at(first, 1);
    auto* v = v_at(first, 1);
    if (!k || !v || k->part.k.first_token > 0 || !cuda_attend::serves(k->part.k, v->part.v)) break;
    const int n_k = tokens_of(k->part.k), n_v = tokens_of(v->part.v), n = std::min(n_k, n_v);
    const auto& q = k->part.q;
    const int64_t n_out = targets_[static_cast<size_t>(v->target)].out.numel();
    if (n < kLeastTokens || k_at(first, n) != k || v_at(first, n) != v || q.stride != k->part.k.n_channels ||
        (found.q && (q.data != found.q || v->target != found.target)) || n_out != all.n * q.stride) {
      break;
    }
    found.q = q.data, found.target = v->target, found.n_heads = all.n, found.n_kv_heads = k->part.k.n_heads;
    if (softmax.n_hidden < first + n) {
      found.segments.push_back({.k = k->part.k,
                                .v = v->part.v,
                                .n_tokens = n,
                                .n_hidden = std::max(0, softmax.n_hidden - first),
                                .scores = alone ? nullptr : all.data + first,
                                .scores_stride = all.stride});
    }
    found.n_tokens += n;
    drop_tokens(scores_, k, n, k->part.k, k->part.scores);
    drop_tokens(v_sums_, v, n, v->part.v, v->part.weights);
    if (n_k != n_v) break;
  }
  return found;
}

// Where they are alone, their scores are not the softmax's.
std::vector<Step::Segments> Step::take_segments() {
  std::vector<Segments> all;
  std::vector<Softmax> left;
  for (auto softmax : softmax_) {
    Segments segments;
    const bool whole = softmax.softcap == 0 && is_whole(softmax);  // attend_codes knows no softcap
    if (whole && is_plain(softmax)) segments = segments_of(softmax, /*alone=*/true);
    if (whole && segments.n_tokens == 0) segments = segments_of(softmax, /*alone=*/false);
    segments.sinks = softmax.sinks;
    if (segments.n_tokens > 0 && segments.alone) {
      without_weights_.push_back(softmax.scores.data);
      softmax.scores = from_column(softmax.scores, segments.n_tokens);
      softmax.n_hidden = std::max(0, softmax.n_hidden - segments.n_tokens);
    }
    if (segments.n_tokens > 0 && softmax.scores.width > 0) {
      const auto norms = at::empty({softmax.scores.n, 2}, at::TensorOptions(at::kFloat).device(device_));
      hold(norms);
      softmax.norms = segments.norms = static_cast<float*>(norms.mutable_data_ptr());
    }
    if (softmax.scores.width > 0) left.push_back(softmax);
    if (segments.n_tokens > 0) all.push_back(std::move(segments));
  }
  softmax_ = std::move(left);
  return all;
}

bool Step::has_weights(const at::Tensor& scores) const {
  return std::find(without_weights_.begin(), without_weights_.end(), scores.const_data_ptr<float>()) ==
         without_weights_.end();
}

Step::Attention Step::attend(std::span<const Segments> all, void* stream) {
  Attention attention;
  if (all.empty()) return attention;
  for (const auto& x : all) {
    auto* out = static_cast<float*>(targets_[static_cast<size_t>(x.target)].out.mutable_data_ptr());
    attention.batch.push_back({.segments = x.segments,
                               .q = x.q,
                               .other_out = x.norms ? out : nullptr,
                               .other_norms = reinterpret_cast<const cuda_attend::Norm*>(x.norms),
                               .sinks = x.sinks,
                               .norms_of_all = !x.alone,
                               .out = out});
  }
  const auto& first = all.front();  // all are of one layer
  const auto n_out = targets_[static_cast<size_t>(first.target)].out.numel();
  attention.heads = {first.n_heads, first.n_kv_heads, static_cast<int>(n_out) / first.n_heads};
  attention.workspace = at::empty({cuda_attend::workspace_floats(attention.batch, attention.heads)},
                                  at::TensorOptions(at::kFloat).device(device_));
  attend_kernels_for(device_).attend(attention.batch, attention.heads,
                                     static_cast<float*>(attention.workspace.mutable_data_ptr()), stream);
  return attention;
}

void Step::join(const Attention& attention, void* stream) {
  if (attention.batch.empty()) return;
  attend_kernels_for(device_).join(attention.batch, attention.heads,
                                   static_cast<const float*>(attention.workspace.const_data_ptr()), stream);
}

}  // namespace kvc::on_device
