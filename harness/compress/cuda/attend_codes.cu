// Launches of attend_codes and join_splits: tables of segments, and where each one's sums go.
#include <algorithm>
#include <bit>

#include "cuda/attend_launch.cuh"
#include "cuda/join_splits.cuh"

namespace kvc::KVC_DEVICE {

template <>
void launch_attend<64>(const Segments& segments, const AttendLaunch& how);
template <>
void launch_attend<96>(const Segments& segments, const AttendLaunch& how);
template <>
void launch_attend<128>(const Segments& segments, const AttendLaunch& how);
template <>
void launch_attend<256>(const Segments& segments, const AttendLaunch& how);

namespace {

using cuda_attend::AttentionShape;
using cuda_attend::Kernels;
using cuda_attend::n_splits;
using cuda_attend::Norm;
using cuda_attend::Segment;
using cuda_attend::Sequence;
using cuda_products::Kind;
using cuda_products::Matrix;

template <class T>
gmem_ptr<T> numbers(T* data, int64_t n) {
  return checked(data, data ? static_cast<size_t>(n) : 0);
}
gmem_ptr<const unsigned short> halves_of(const NumberArray& x) {
  return numbers(static_cast<const unsigned short*>(x.data), x.n);
}

Operand operand_of(const Matrix& x) {
  const int words = x.group_size / (32 / x.bits);  // of a group along tokens: a power of 2
  int shift = 31;
  if (x.rows_are_channels && x.n_groups > 1) shift = static_cast<int>(std::bit_width(static_cast<unsigned>(words))) - 1;
  const bool symmetric = x.zero.n == 0;
  return {.rows = numbers(static_cast<const unsigned char*>(x.rows.data), x.rows.n),
          .scale = halves_of(x.scale),
          .zero = halves_of(symmetric ? x.scale : x.zero),
          .zero_factor = symmetric ? -x.centre : 1.0f,
          .head_bytes = x.head_bytes,
          .head_scales = x.head_scales,
          .n_words = static_cast<int>(x.row_bytes / 4),
          .n_groups = x.one_scale ? 0 : x.n_groups,
          .group_size = x.rows_are_channels ? shift : x.group_size};
}

// A sequence's sums and norms within the workspace.
template <class Float, class Pair>
struct Parts {
  gmem_ptr<Float> sums;
  gmem_ptr<Pair> norms;
  int n = 0;

  // Takes them from the workspace's front.
  Parts(const Sequence& sequence, const AttentionShape& heads, Float*& front) {
    for (const auto& segment : sequence.segments) n += n_splits(segment);
    const int64_t n_sums = int64_t{n} * heads.n_query * heads.dim, n_norms = int64_t{n} * heads.n_query;
    sums = checked(front, static_cast<size_t>(n_sums));
    norms = checked(reinterpret_cast<Pair*>(front + n_sums), static_cast<size_t>(n_norms));
    front += n_sums + 2 * n_norms;
  }
};

SegmentArgument argument_of(const Segment& segment, const Sequence& sequence, const AttentionShape& heads,
                            int first_part, const Parts<float, float2>& parts) {
  const int64_t n_scores = (heads.n_query - 1) * segment.scores_stride + segment.n_tokens;
  const int first = cuda_attend::first_token(segment);
  return {.k = operand_of(segment.k),
          .v = operand_of(segment.v),
          .q = numbers(sequence.q, int64_t{heads.n_query} * heads.dim),
          .scores = numbers(segment.scores, n_scores),
          .sums = parts.sums,
          .norms = parts.norms,
          .scores_stride = segment.scores_stride,
          .n_tokens = segment.n_tokens,
          .n_hidden = segment.n_hidden,
          .first_token = first,
          .split_tokens = cuda_attend::split_tokens(segment.n_tokens - first),
          .n_splits = n_splits(segment),
          .first_part = first_part,
          .n_parts = parts.n};
}

AttendLaunch launch_of(const Segment& segment, const AttentionShape& heads, cudaStream_t stream) {
  return {.bits = segment.k.bits,
          .n_segments = 0,
          .most_splits = 0,
          .n_kv = heads.n_kv,
          .group = heads.group(),
          .bf16 = segment.k.kind == Kind::bf16,
          .along_tokens = segment.k.rows_are_channels,
          .stream = stream};
}

bool is_like(const AttendLaunch& a, const AttendLaunch& b) {
  return a.bits == b.bits && a.bf16 == b.bf16 && a.along_tokens == b.along_tokens;
}

// Segments of one format that wait for their launch.
class Waiting {
 public:
  explicit Waiting(int dim) : dim_(dim) {}

  void add(const SegmentArgument& segment, const AttendLaunch& how) {
    if (how_.n_segments == kSegmentsPerLaunch || (how_.n_segments > 0 && !is_like(how_, how))) launch();
    if (how_.n_segments == 0) how_ = how;
    segments_.of[how_.n_segments++] = segment;
    how_.most_splits = std::max(how_.most_splits, segment.n_splits);
  }
  void launch() {
    if (how_.n_segments == 0) return;
    const auto run = dim_ == 64    ? launch_attend<64>
                     : dim_ == 96  ? launch_attend<96>
                     : dim_ == 128 ? launch_attend<128>
                                   : launch_attend<256>;
    run(segments_, how_);
    how_ = {};
  }

 private:
  int dim_;
  Segments segments_ = {};
  AttendLaunch how_ = {};
};

void attend(std::span<const Sequence> batch, const AttentionShape& heads, float* workspace, void* stream) {
  Waiting waiting(heads.dim);
  for (const auto& sequence : batch) {
    const Parts<float, float2> parts(sequence, heads, workspace);
    int first_part = 0;
    for (const auto& segment : sequence.segments) {
      if (segment.n_tokens <= 0) continue;
      waiting.add(argument_of(segment, sequence, heads, first_part, parts),
                  launch_of(segment, heads, static_cast<cudaStream_t>(stream)));
      first_part += n_splits(segment);
    }
  }
  waiting.launch();
}

void join(std::span<const Sequence> batch, const AttentionShape& heads, const float* workspace, void* stream) {
  const int64_t n_out = int64_t{heads.n_query} * heads.dim;
  for (; !batch.empty(); batch = batch.subspan(std::min<size_t>(batch.size(), kSegmentsPerLaunch))) {
    Joins joins{};
    const int n = std::min(static_cast<int>(batch.size()), kSegmentsPerLaunch);
    for (int i = 0; i < n; ++i) {
      const auto& sequence = batch[static_cast<size_t>(i)];
      const Parts<const float, const float2> parts(sequence, heads, workspace);
      joins.of[i] = {.sums = parts.sums,
                     .norms = parts.norms,
                     .other_out = numbers(sequence.other_out, n_out),
                     .other_norms = numbers(reinterpret_cast<const float2*>(sequence.other_norms), heads.n_query),
                     .sinks = numbers(sequence.sinks, heads.n_query),
                     .out = numbers(sequence.out, n_out),
                     .to_norms = numbers(reinterpret_cast<float2*>(sequence.norms), heads.n_query),
                     .n_parts = parts.n,
                     .norms_of_all = sequence.norms_of_all};
    }
    KVC_LAUNCH(join_splits, dim3(static_cast<unsigned>(heads.n_query), static_cast<unsigned>(n)),
               dim3(static_cast<unsigned>(heads.dim)), 0, static_cast<cudaStream_t>(stream), joins);
  }
}

}  // namespace

const Kernels& attend_kernels() {
  static constexpr Kernels kernels{attend, join};
  return kernels;
}

}  // namespace kvc::KVC_DEVICE
