// What outliers add to scores and mixtures over codes, on raw pointers; no LibTorch. An outlier's code is 0 and stands
// for a value of its vector, the base, so that an entry adds its difference to it. Accumulation is fp32, in the order
// of the entries.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvquant::sparse {

struct Shape {
  int64_t n_heads, group, head_dim;  // KV heads, query heads of one
  int64_t n_queries() const { return n_heads * group; }
  int64_t n_channels() const { return n_heads * head_dim; }
};

// Of some tokens, token by token, channels ascending.
struct Entries {
  const float* values;
  const int16_t *index, *counts;  // unsigned 16-bit numbers
  int64_t n_tokens;
};

// What the outliers of keys are scored with: the query, rotated back by each token's position.
class Keys {
 public:
  // q [n_queries, head_dim]; base [n_channels]; frequencies [head_dim / 2], channels i and i + head_dim / 2 are rotated
  // by position * frequencies[i]
  Keys(const Shape& shape, const float* q, const float* base, std::span<const float> frequencies);

  // scores [n_queries, stride] += those of the entries, the first token at this position
  void score(const Entries& entries, int64_t position, float* scores, int64_t stride) const;

 private:
  struct Channel {
    float base;
    uint16_t row, pair;  // the first query head, and the channel's frequency
  };

  Shape shape_;
  std::vector<double> frequencies_;
  std::vector<Channel> channels_;
  std::vector<float> queries_;        // [n_channels, group, 2]: q, and what its pair adds
  std::vector<float> cosine_, sine_;  // [kRun, head_dim / 2]: of steps from a token on
};

// mixture [n_queries, head_dim] += the entries times weights [n_queries, stride], and, where zero is not null, each
// token's zero [n_tokens]. base [n_tokens]
void accumulate_v(const Shape& shape, const Entries& entries, const float* base, const float* zero,
                  const float* weights, int64_t stride, float* mixture);

}  // namespace kvquant::sparse
