// The kernels of products.cuh for a part's sizes.
#include "cuda/products.cuh"

namespace kvc::KVC_DEVICE {
namespace {

using cuda_products::Array;
using cuda_products::Entries;
using cuda_products::Heads;
using cuda_products::Kernels;
using cuda_products::Matrix;

int64_t width_of(Number type) {
  switch (type) {
    case Number::f32:
      return 4;
    case Number::f16:
    case Number::bf16:
      return 2;
    default:
      return 1;
  }
}

unsigned blocks(int64_t n, int64_t each) { return static_cast<unsigned>((n + each - 1) / each); }
unsigned chunks(int group) { return blocks(group, kHeadsAtOnce); }

gmem_ptr<const unsigned char> bytes_of(const void* data, int64_t n) {
  return checked(static_cast<const unsigned char*>(data), static_cast<size_t>(n));
}
Numbers numbers_of(const Array& x) { return {bytes_of(x.data, x.n * width_of(x.type)), x.type, x.n}; }

template <class T>
gmem_ptr<T> numbers_of(const Heads& x) {
  return checked(static_cast<T*>(x.data), static_cast<size_t>((x.n - 1) * x.stride + x.width));
}

MatrixArgument argument_of(const Matrix& x) {
  MatrixArgument a{.rows = bytes_of(x.rows.data, x.rows.n),
                   .scale = numbers_of(x.scale),
                   .zero = numbers_of(x.zero),
                   .head_bytes = x.head_bytes,
                   .row_bytes = x.row_bytes,
                   .head_sides = x.head_sides,
                   .kind = x.kind,
                   .centre = x.centre,
                   .levels = {},
                   .n_tokens = x.n_tokens,
                   .n_channels = x.n_channels,
                   .n_groups = x.n_groups,
                   .group_size = x.group_size,
                   .one_side = x.one_side,
                   .spread = x.spread};
  for (int i = 0; i < 16; ++i) a.levels[i] = x.levels[static_cast<size_t>(i)];
  return a;
}

template <int kBits>
void score_with(const Matrix& k, const Heads& q, const Heads& scores, cudaStream_t stream) {
  const int group = q.n / k.n_heads, q_stride = static_cast<int>(q.stride);
  const dim3 grid(blocks(k.n_tokens, kThreads), static_cast<unsigned>(k.n_heads), chunks(group));
  if constexpr (32 % kBits == 0 && kBits <= 8) {
    if (k.spread != Spread::none) {
      KVC_LAUNCH(score_spread<kBits>, grid, dim3(kThreads), 0, stream, argument_of(k), numbers_of<const float>(q),
                 q_stride, numbers_of<float>(scores), scores.stride, group);
      return;
    }
    if (k.rows_are_channels) {
      KVC_LAUNCH(score_channels<kBits>, grid, dim3(kThreads), 0, stream, argument_of(k), numbers_of<const float>(q),
                 q_stride, numbers_of<float>(scores), scores.stride, group);
      return;
    }
  }
  KVC_LAUNCH(score_rows<kBits>, grid, dim3(kThreads), 0, stream, argument_of(k), numbers_of<const float>(q), q_stride,
             numbers_of<float>(scores), scores.stride, group);
}

template <int kBits>
void weigh_with(const Matrix& v, const Heads& weights, const Heads& out, float* parts, cudaStream_t stream) {
  const int group = out.n / v.n_heads, n_splits = cuda_products::n_splits(v.n_tokens);
  const dim3 grid(static_cast<unsigned>(n_splits) * blocks(v.n_channels, kThreads), static_cast<unsigned>(v.n_heads),
                  chunks(group));
  const Heads split{parts, out.stride, n_splits * out.n, out.width};
  const auto to = n_splits == 1 ? numbers_of<float>(out) : numbers_of<float>(split);
  const auto run = [&](auto weigh_rows) {
    KVC_LAUNCH(weigh_rows, grid, dim3(kThreads), 0, stream, argument_of(v), numbers_of<const float>(weights),
               weights.stride, to, static_cast<int>(out.stride), group, n_splits);
  };
  if constexpr (32 % kBits == 0 && kBits <= 8) {
    v.spread == Spread::none ? run(weigh_rows<kBits, false>) : run(weigh_rows<kBits, true>);
  } else {
    run(weigh_rows<kBits, false>);
  }
  if (n_splits == 1) return;
  const int n = static_cast<int>(out.n * out.stride);
  KVC_LAUNCH(add_parts, dim3(blocks(n, kThreads)), dim3(kThreads), 0, stream, numbers_of<const float>(split),
             numbers_of<float>(out), n_splits, n);
}

// f.operator()<bits>()
template <class F>
void with_bits(int bits, F f) {
  switch (bits) {
    case 1:
      return f.template operator()<1>();
    case 2:
      return f.template operator()<2>();
    case 3:
      return f.template operator()<3>();
    case 4:
      return f.template operator()<4>();
    case 8:
      return f.template operator()<8>();
    case 16:
      return f.template operator()<16>();
    default:
      return f.template operator()<32>();
  }
}

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

void score(const Matrix& k, const Heads& q, const Heads& scores, void* stream) {
  with_bits(k.bits, [&]<int kBits>() { score_with<kBits>(k, q, scores, stream_of(stream)); });
}

void weigh(const Matrix& v, const Heads& weights, const Heads& out, float* parts, void* stream) {
  with_bits(v.bits, [&]<int kBits>() { weigh_with<kBits>(v, weights, out, parts, stream_of(stream)); });
}

EntriesArgument argument_of(const Entries& x, int group) {
  return {
      numbers_of(x.values), bytes_of(x.index.data, x.index.n), x.wide, x.per_vector, x.n_vectors, x.head_dim, group};
}

void score_entries_of_channels(const Entries& k, const Heads& q, const Heads& scores, void* stream) {
  KVC_LAUNCH(score_channel_entries, dim3(static_cast<unsigned>(q.n)), dim3(kThreads), 0, stream_of(stream),
             argument_of(k, q.n / k.n_kv_heads), numbers_of<const float>(q), numbers_of<float>(scores), scores.stride);
}

void weigh_entries_of_channels(const Entries& v, const Heads& weights, const Heads& out, void* stream) {
  const dim3 grid(blocks(v.head_dim, kThreads / 32), static_cast<unsigned>(out.n));
  KVC_LAUNCH(weigh_channel_entries, grid, dim3(kThreads), 0, stream_of(stream), argument_of(v, out.n / v.n_kv_heads),
             numbers_of<const float>(weights), weights.stride, numbers_of<float>(out));
}

void score_entries_of_tokens(const Entries& k, const Heads& q, const Heads& scores, void* stream) {
  KVC_LAUNCH(score_token_entries, dim3(blocks(k.n_vectors, kThreads)), dim3(kThreads), 0, stream_of(stream),
             argument_of(k, q.n / k.n_kv_heads), numbers_of<const float>(q), numbers_of<float>(scores), scores.stride);
}

void weigh_entries_of_tokens(const Entries& v, const Heads& weights, const Heads& out, float* parts, void* stream) {
  const int n_splits = cuda_products::n_splits(v.n_vectors), n = out.n * v.head_dim;
  const Heads split{parts, v.head_dim, n_splits * out.n, v.head_dim};
  KVC_LAUNCH(weigh_token_entries, dim3(static_cast<unsigned>(n_splits)), dim3(kThreads), 0, stream_of(stream),
             argument_of(v, out.n / v.n_kv_heads), numbers_of<const float>(weights), weights.stride,
             numbers_of<float>(split), out.n);
  KVC_LAUNCH(add_parts, dim3(blocks(n, kThreads)), dim3(kThreads), 0, stream_of(stream), numbers_of<const float>(split),
             numbers_of<float>(out), n_splits, n);
}

void soften(const Heads& scores, const int* n_hidden, int n_kv_heads, void* stream) {
  Hidden hidden{};
  for (int i = 0; i < n_kv_heads; ++i) hidden.n[i] = n_hidden[i];
  KVC_LAUNCH(soften_scores, dim3(static_cast<unsigned>(scores.n)), dim3(kThreads), 0, stream_of(stream),
             numbers_of<float>(scores), scores.stride, scores.width, scores.n / n_kv_heads, hidden);
}

}  // namespace

const Kernels& product_kernels() {
  static constexpr Kernels kernels{score,
                                   weigh,
                                   score_entries_of_channels,
                                   weigh_entries_of_channels,
                                   score_entries_of_tokens,
                                   weigh_entries_of_tokens,
                                   soften};
  return kernels;
}

}  // namespace kvc::KVC_DEVICE
