// Launches of attend_codes and join_splits: tables of bulks, and where each one's sums go.
#include <algorithm>
#include <bit>

#include "cuda/attend_launch.cuh"
#include "cuda/join_splits.cuh"

namespace kvc::KVC_DEVICE {

template <>
void launch_attend<64>(const Bulks& bulks, const AttendLaunch& how);
template <>
void launch_attend<96>(const Bulks& bulks, const AttendLaunch& how);
template <>
void launch_attend<128>(const Bulks& bulks, const AttendLaunch& how);
template <>
void launch_attend<256>(const Bulks& bulks, const AttendLaunch& how);

namespace {

using cuda_attend::Bulk;
using cuda_attend::Heads;
using cuda_attend::Kernels;
using cuda_attend::n_splits;
using cuda_attend::Norm;
using cuda_attend::Sequence;
using cuda_products::Array;
using cuda_products::Kind;
using cuda_products::Matrix;

template <class T>
gmem_ptr<T> numbers(T* data, int64_t n) {
  return checked(data, data ? static_cast<size_t>(n) : 0);
}
gmem_ptr<const unsigned short> halves_of(const Array& x) {
  return numbers(static_cast<const unsigned short*>(x.data), x.n);
}

Side side_of(const Matrix& x) {
  const int words = x.group_size / (32 / x.bits);  // of a group along tokens: a power of 2
  int shift = 31;
  if (x.rows_are_channels && x.n_groups > 1) shift = static_cast<int>(std::bit_width(static_cast<unsigned>(words))) - 1;
  const bool symmetric = x.zero.n == 0;
  return {.rows = numbers(static_cast<const unsigned char*>(x.rows.data), x.rows.n),
          .scale = halves_of(x.scale),
          .zero = halves_of(symmetric ? x.scale : x.zero),
          .zero_factor = symmetric ? -x.centre : 1.0f,
          .head_bytes = x.head_bytes,
          .head_sides = x.head_sides,
          .n_words = static_cast<int>(x.row_bytes / 4),
          .n_groups = x.one_side ? 0 : x.n_groups,
          .group_size = x.rows_are_channels ? shift : x.group_size};
}

// A sequence's sums and norms within the workspace.
template <class Float, class Pair>
struct Parts {
  gmem_ptr<Float> sums;
  gmem_ptr<Pair> norms;
  int n = 0;

  // Takes them from the workspace's front.
  Parts(const Sequence& sequence, const Heads& heads, Float*& front) {
    for (const auto& bulk : sequence.bulks) n += n_splits(bulk);
    const int64_t n_sums = int64_t{n} * heads.n_query * heads.dim, n_norms = int64_t{n} * heads.n_query;
    sums = checked(front, static_cast<size_t>(n_sums));
    norms = checked(reinterpret_cast<Pair*>(front + n_sums), static_cast<size_t>(n_norms));
    front += n_sums + 2 * n_norms;
  }
};

BulkArgument argument_of(const Bulk& bulk, const Sequence& sequence, const Heads& heads, int first_part,
                         const Parts<float, float2>& parts) {
  const int64_t n_scores = (heads.n_query - 1) * bulk.scores_stride + bulk.n_tokens;
  const int first = cuda_attend::first_token(bulk);
  return {.k = side_of(bulk.k),
          .v = side_of(bulk.v),
          .q = numbers(sequence.q, int64_t{heads.n_query} * heads.dim),
          .scores = numbers(bulk.scores, n_scores),
          .sums = parts.sums,
          .norms = parts.norms,
          .scores_stride = bulk.scores_stride,
          .n_tokens = bulk.n_tokens,
          .n_hidden = bulk.n_hidden,
          .first_token = first,
          .split_tokens = cuda_attend::split_tokens(bulk.n_tokens - first),
          .n_splits = n_splits(bulk),
          .first_part = first_part,
          .n_parts = parts.n};
}

AttendLaunch launch_of(const Bulk& bulk, const Heads& heads, cudaStream_t stream) {
  return {.bits = bulk.k.bits,
          .n_bulks = 0,
          .most_splits = 0,
          .n_kv = heads.n_kv,
          .group = heads.group(),
          .bf16 = bulk.k.kind == Kind::bf16,
          .along_tokens = bulk.k.rows_are_channels,
          .stream = stream};
}

bool is_like(const AttendLaunch& a, const AttendLaunch& b) {
  return a.bits == b.bits && a.bf16 == b.bf16 && a.along_tokens == b.along_tokens;
}

// Bulks of one format that wait for their launch.
class Waiting {
 public:
  explicit Waiting(int dim) : dim_(dim) {}

  void add(const BulkArgument& bulk, const AttendLaunch& how) {
    if (how_.n_bulks == kBulksALaunch || (how_.n_bulks > 0 && !is_like(how_, how))) launch();
    if (how_.n_bulks == 0) how_ = how;
    bulks_.of[how_.n_bulks++] = bulk;
    how_.most_splits = std::max(how_.most_splits, bulk.n_splits);
  }
  void launch() {
    if (how_.n_bulks == 0) return;
    const auto run = dim_ == 64    ? launch_attend<64>
                     : dim_ == 96  ? launch_attend<96>
                     : dim_ == 128 ? launch_attend<128>
                                   : launch_attend<256>;
    run(bulks_, how_);
    how_ = {};
  }

 private:
  int dim_;
  Bulks bulks_ = {};
  AttendLaunch how_ = {};
};

void attend(std::span<const Sequence> batch, const Heads& heads, float* workspace, void* stream) {
  Waiting waiting(heads.dim);
  for (const auto& sequence : batch) {
    const Parts<float, float2> parts(sequence, heads, workspace);
    int first_part = 0;
    for (const auto& bulk : sequence.bulks) {
      if (bulk.n_tokens <= 0) continue;
      waiting.add(argument_of(bulk, sequence, heads, first_part, parts),
                  launch_of(bulk, heads, static_cast<cudaStream_t>(stream)));
      first_part += n_splits(bulk);
    }
  }
  waiting.launch();
}

void join(std::span<const Sequence> batch, const Heads& heads, const float* workspace, void* stream) {
  const int64_t n_out = int64_t{heads.n_query} * heads.dim;
  for (; !batch.empty(); batch = batch.subspan(std::min<size_t>(batch.size(), kBulksALaunch))) {
    Joins joins{};
    const int n = std::min(static_cast<int>(batch.size()), kBulksALaunch);
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
