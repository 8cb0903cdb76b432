// Biregular bipartite expanders: masks of n tokens x m channels in which every token has d_t channels and every channel
// d_c = n * d_t / m tokens. Source: GEAR-X, section 3.3. No LibTorch here.
#pragma once

#include <cstdint>
#include <vector>

namespace gearx {

struct MaskKey {
  int64_t n_channels = 0;    // m, up to 65536
  int64_t n_tokens = 0;      // n
  int64_t token_degree = 0;  // d_t; m divides n * d_t
  uint64_t seed = 0;

  int64_t channel_degree() const { return n_tokens * token_degree / n_channels; }  // d_c
  int64_t n_edges() const { return n_tokens * token_degree; }
  auto operator<=>(const MaskKey&) const = default;
};

// The mask in CSR form without its row pointers, which are multiples of d_t: the channels of token 0, ascending, those
// of token 1, ... [n * d_t]. Bytes: 2 * n * d_t.
using Mask = std::vector<uint16_t>;

// The smallest d_t for which a regular mask of at least this density exists, d_t and d_c both 2 or more.
int64_t token_degree(int64_t n_channels, int64_t n_tokens, double density);

// Random stubs paired, made simple and connected by double-edge swaps, drawn again until its second singular value is
// at most 1.05 times the Ramanujan bound. A function of the key alone. Throws kvc::Error after 64 draws.
Mask make_mask(const MaskKey& key);

// Rows ascending without repetition, channels below m, every channel d_c times.
bool is_biregular(const Mask& mask, const MaskKey& key);

// Components of the graph of n + m vertices.
int64_t n_components(const Mask& mask, const MaskKey& key);

// Of the n x m matrix of zeros and ones: power iteration (n_steps) orthogonally to the constant vector, whose singular
// value, sqrt(d_t * d_c), is the largest. From below.
double second_singular_value(const Mask& mask, const MaskKey& key, int64_t n_steps = 100);

// sqrt(d_t - 1) + sqrt(d_c - 1)
double ramanujan_bound(const MaskKey& key);

}  // namespace gearx
