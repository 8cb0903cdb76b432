// The kernels of products.cuh for parts' sizes.
#include <algorithm>

#include "cuda/products.cuh"

namespace kvc::KVC_DEVICE {
namespace {

using cuda_products::AccumulateEntries;
using cuda_products::AccumulateV;
using cuda_products::Entries;
using cuda_products::Kernels;
using cuda_products::Matrix;
using cuda_products::QueryRows;
using cuda_products::Score;
using cuda_products::ScoreEntries;
using cuda_products::Softmax;
using cuda_products::Sum;

unsigned blocks(int64_t n, int64_t each) { return static_cast<unsigned>((n + each - 1) / each); }
unsigned chunks(int group) { return blocks(group, kHeadsAtOnce); }

gmem_ptr<const unsigned char> bytes_of(const void* data, int64_t n) {
  return checked(static_cast<const unsigned char*>(data), static_cast<size_t>(n));
}
Numbers numbers_of(const NumberArray& x) { return {bytes_of(x.data, x.n * size_of(x.type)), x.type, x.n}; }

template <class T>
gmem_ptr<T> numbers_of(const QueryRows& x) {
  return checked(static_cast<T*>(x.data), static_cast<size_t>((x.n - 1) * x.stride + x.width));
}

MatrixArgument argument_of(const Matrix& x) {
  MatrixArgument a{.rows = bytes_of(x.rows.data, x.rows.n),
                   .scale = numbers_of(x.scale),
                   .zero = numbers_of(x.zero),
                   .head_bytes = x.head_bytes,
                   .row_bytes = x.row_bytes,
                   .head_scales = x.head_scales,
                   .kind = x.kind,
                   .centre = x.centre,
                   .levels = {},
                   .n_tokens = x.n_tokens,
                   .n_channels = x.n_channels,
                   .n_groups = x.n_groups,
                   .group_size = x.group_size,
                   .one_scale = x.one_scale,
                   .first_token = x.first_token,
                   .order = x.order.value_or(GroupOrder::flat)};
  for (int i = 0; i < 16; ++i) a.levels[i] = x.levels[static_cast<size_t>(i)];
  return a;
}

// launch(table, parts) of up to kMostParts parts at a time; argument(part): what of it stands in the table
template <class Argument, class Part, class Make, class F>
void in_tables(std::span<const Part> parts, Make argument, F launch) {
  while (!parts.empty()) {
    const auto some = parts.first(std::min<size_t>(parts.size(), kMostParts));
    Table<Argument> table{};
    for (size_t i = 0; i < some.size(); ++i) table.of[i] = argument(some[i]);
    launch(table, some);
    parts = parts.subspan(some.size());
  }
}

template <class Part, class Length>
unsigned longest(std::span<const Part> parts, Length length) {
  unsigned most = 0;
  for (const auto& part : parts) most = std::max(most, static_cast<unsigned>(length(part)));
  return most;
}

template <int kBits>
void score_with(std::span<const Score> parts, cudaStream_t stream) {
  const auto loop = cuda_products::loop_of(parts.front().k, parts.front().q.n);
  const auto argument = [](const Score& x) {
    return ScorePart{argument_of(x.k), numbers_of<const float>(x.q), numbers_of<float>(x.scores), x.scores.stride,
                     static_cast<int>(x.q.stride)};
  };
  in_tables<ScorePart>(parts, argument, [&](const Table<ScorePart>& table, std::span<const Score> some) {
    const dim3 grid(longest(some, [](const Score& x) { return blocks(x.k.n_tokens - x.k.first_token, kThreads); }),
                    static_cast<unsigned>(loop.n_heads), chunks(loop.group) * static_cast<unsigned>(some.size()));
    if constexpr (32 % kBits == 0 && kBits <= 8) {
      if (loop.spread) {
        KVC_LAUNCH(score_spread<kBits>, grid, dim3(kThreads), 0, stream, table, loop.group);
        return;
      }
      if (loop.rows_are_channels) {
        KVC_LAUNCH(score_channels<kBits>, grid, dim3(kThreads), 0, stream, table, loop.group);
        return;
      }
    }
    KVC_LAUNCH(score_rows<kBits>, grid, dim3(kThreads), 0, stream, table, loop.group);
  });
}

template <int kBits>
void accumulate_with(std::span<const AccumulateV> parts, cudaStream_t stream) {
  const auto loop = cuda_products::loop_of(parts.front().v, parts.front().weights.n);
  const auto argument = [](const AccumulateV& x) {
    const int n_splits = cuda_products::n_splits(x.v.n_tokens);
    const auto n = static_cast<size_t>(n_splits) * static_cast<size_t>(x.weights.n * x.v.n_channels);
    return AccumulatePart{argument_of(x.v), numbers_of<const float>(x.weights), checked(x.parts, n), x.weights.stride,
                          n_splits};
  };
  in_tables<AccumulatePart>(
      parts, argument, [&](const Table<AccumulatePart>& table, std::span<const AccumulateV> some) {
        const auto n_blocks = [](const AccumulateV& x) {
          return static_cast<unsigned>(cuda_products::n_splits(x.v.n_tokens)) * blocks(x.v.n_channels, kThreads);
        };
        const dim3 grid(longest(some, n_blocks), static_cast<unsigned>(loop.n_heads),
                        chunks(loop.group) * static_cast<unsigned>(some.size()));
        const auto run = [&](auto accumulate_rows) {
          KVC_LAUNCH(accumulate_rows, grid, dim3(kThreads), 0, stream, table, loop.group);
        };
        if constexpr (32 % kBits == 0 && kBits <= 8) {
          loop.spread ? run(accumulate_rows<kBits, true>) : run(accumulate_rows<kBits, false>);
        } else {
          run(accumulate_rows<kBits, false>);
        }
      });
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

void score(std::span<const Score> parts, void* stream) {
  with_bits(parts.front().k.bits, [&]<int kBits>() { score_with<kBits>(parts, stream_of(stream)); });
}

void accumulate_v(std::span<const AccumulateV> parts, void* stream) {
  with_bits(parts.front().v.bits, [&]<int kBits>() { accumulate_with<kBits>(parts, stream_of(stream)); });
}

EntriesArgument argument_of(const Entries& x, int group) {
  return {
      numbers_of(x.values), bytes_of(x.index.data, x.index.n), x.wide, x.per_vector, x.n_vectors, x.head_dim, group};
}

void score_entries(std::span<const ScoreEntries> parts, void* stream) {
  const auto n_heads = static_cast<unsigned>(parts.front().q.n);
  const auto argument = [](const ScoreEntries& x) {
    return EntriesPart{argument_of(x.k, x.q.n / x.k.n_kv_heads), numbers_of<const float>(x.q),
                       numbers_of<float>(x.scores), x.scores.stride};
  };
  in_tables<EntriesPart>(parts, argument, [&](const Table<EntriesPart>& table, std::span<const ScoreEntries> some) {
    const auto n = static_cast<unsigned>(some.size());
    if (some.front().k.of_channels) {
      KVC_LAUNCH(score_channel_entries, dim3(n_heads, n), dim3(kThreads), 0, stream_of(stream), table);
      return;
    }
    const auto n_blocks = longest(some, [](const ScoreEntries& x) { return blocks(x.k.n_vectors, kThreads); });
    KVC_LAUNCH(score_token_entries, dim3(n_blocks, n), dim3(kThreads), 0, stream_of(stream), table);
  });
}

void accumulate_entries(std::span<const AccumulateEntries> parts, void* stream) {
  const int n_heads = parts.front().weights.n;
  const auto argument = [](const AccumulateEntries& x) {
    const auto n = static_cast<size_t>(cuda_products::n_parts(x.v)) * static_cast<size_t>(x.weights.n * x.v.head_dim);
    return EntriesPart{argument_of(x.v, x.weights.n / x.v.n_kv_heads), numbers_of<const float>(x.weights),
                       checked(x.parts, n), x.weights.stride};
  };
  in_tables<EntriesPart>(
      parts, argument, [&](const Table<EntriesPart>& table, std::span<const AccumulateEntries> some) {
        const auto n = static_cast<unsigned>(some.size());
        if (some.front().v.of_channels) {
          const dim3 grid(blocks(some.front().v.head_dim, kThreads / 32), static_cast<unsigned>(n_heads), n);
          KVC_LAUNCH(accumulate_channel_entries, grid, dim3(kThreads), 0, stream_of(stream), table);
          return;
        }
        const auto n_blocks = longest(some, [](const AccumulateEntries& x) { return cuda_products::n_parts(x.v); });
        KVC_LAUNCH(accumulate_token_entries, dim3(n_blocks, n), dim3(kThreads), 0, stream_of(stream), table, n_heads);
      });
}

void softmax(std::span<const Softmax> parts, void* stream) {
  const auto argument = [](const Softmax& x) {
    const auto n = static_cast<size_t>(x.scores.n);
    return SoftmaxPart{.scores = numbers_of<float>(x.scores),
                       .norms = checked(x.norms, x.norms ? 2 * n : 0),
                       .sinks = checked(x.sinks, x.sinks ? n : 0),
                       .stride = x.scores.stride,
                       .n_heads = x.scores.n,
                       .n_tokens = x.scores.width,
                       .n_hidden = x.n_hidden,
                       .softcap = x.softcap,
                       .has_norms = x.norms != nullptr,
                       .has_sinks = x.sinks != nullptr};
  };
  in_tables<SoftmaxPart>(parts, argument, [&](const Table<SoftmaxPart>& table, std::span<const Softmax> some) {
    const dim3 grid(longest(some, [](const Softmax& x) { return x.scores.n; }), static_cast<unsigned>(some.size()));
    KVC_LAUNCH(softmax_scores, grid, dim3(kThreads), 0, stream_of(stream), table);
  });
}

void sum(std::span<const Sum> parts, void* stream) {
  const auto argument = [](const Sum& x) {
    const auto n = static_cast<size_t>(x.n);
    return SumPart{checked(x.parts, n * static_cast<size_t>(x.n_parts)), checked(x.out, n), x.n_parts, x.n};
  };
  in_tables<SumPart>(parts, argument, [&](const Table<SumPart>& table, std::span<const Sum> some) {
    const dim3 grid(longest(some, [](const Sum& x) { return blocks(x.n, kThreads); }),
                    static_cast<unsigned>(some.size()));
    KVC_LAUNCH(add_parts, grid, dim3(kThreads), 0, stream_of(stream), table);
  });
}

}  // namespace

const Kernels& product_kernels() {
  static constexpr Kernels kernels{score, accumulate_v, score_entries, accumulate_entries, softmax, sum};
  return kernels;
}

}  // namespace kvc::KVC_DEVICE
