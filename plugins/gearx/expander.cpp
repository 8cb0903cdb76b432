#include "expander.h"

#include <kvc/check.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace gearx {
namespace {

constexpr int kDraws = 64;
constexpr double kSlack = 1.05;  // of the Ramanujan bound

// The standard fixes the engine's numbers but not those of its distributions: draws are made here.
class Draws {
 public:
  explicit Draws(const MaskKey& key, int attempt) {
    std::seed_seq words{static_cast<uint32_t>(key.n_channels),   static_cast<uint32_t>(key.n_tokens),
                        static_cast<uint32_t>(key.token_degree), static_cast<uint32_t>(key.seed),
                        static_cast<uint32_t>(key.seed >> 32),   static_cast<uint32_t>(attempt)};
    engine_.seed(words);
  }
  int64_t below(int64_t n) {  // n < 2^32: the bias is below 2^-32
    return static_cast<int64_t>(((engine_() >> 32) * static_cast<uint64_t>(n)) >> 32);
  }

 private:
  std::mt19937_64 engine_;
};

bool row_has(const Mask& mask, int64_t row, int64_t degree, uint16_t channel) {
  const auto first = mask.begin() + row * degree;
  return std::find(first, first + degree, channel) != first + degree;
}

// Every channel d_c times, dealt to the tokens at random; rows may repeat a channel.
Mask paired_stubs(const MaskKey& key, Draws& draws) {
  Mask stubs;
  for (int64_t e = 0; e < key.n_edges(); ++e) stubs.push_back(static_cast<uint16_t>(e % key.n_channels));
  for (int64_t e = key.n_edges() - 1; e > 0; --e) std::swap(stubs[e], stubs[draws.below(e + 1)]);
  return stubs;
}

// Each repeated edge trades its channel with a random edge where that repeats none; false where none is found.
bool remove_repetitions(Mask& mask, const MaskKey& key, Draws& draws) {
  const int64_t degree = key.token_degree;
  for (int64_t e = 0; e < key.n_edges(); ++e) {
    const int64_t row = e / degree;
    const auto first = mask.begin() + row * degree;
    if (std::find(first, mask.begin() + e, mask[e]) == mask.begin() + e) continue;
    int tries = 0;
    for (; tries < 10000; ++tries) {
      const int64_t other = draws.below(key.n_edges());
      if (row_has(mask, row, degree, mask[other]) || row_has(mask, other / degree, degree, mask[e])) continue;
      std::swap(mask[e], mask[other]);
      break;
    }
    if (tries == 10000) return false;
  }
  return true;
}

// edges_of[c * d_c + i]: the i-th edge at channel c
std::vector<int64_t> edges_by_channel(const Mask& mask, const MaskKey& key) {
  std::vector<int64_t> edges(mask.size()), next(static_cast<size_t>(key.n_channels));
  for (size_t c = 0; c < next.size(); ++c) next[c] = static_cast<int64_t>(c) * key.channel_degree();
  for (int64_t e = 0; e < key.n_edges(); ++e) edges[next[mask[e]]++] = e;
  return edges;
}

// One edge on a cycle of each component. All degrees are 2 or more, so each has one: an edge outside a spanning tree.
std::vector<int64_t> cycle_edges(const Mask& mask, const MaskKey& key) {
  const auto by_channel = edges_by_channel(mask, key);
  std::vector<bool> token_seen(static_cast<size_t>(key.n_tokens)), channel_seen(static_cast<size_t>(key.n_channels));
  std::vector<bool> in_tree(mask.size());
  std::vector<int64_t> result;
  for (int64_t root = 0; root < key.n_tokens; ++root) {
    if (token_seen[root]) continue;
    std::vector<int64_t> reached = {root};
    token_seen[root] = true;
    for (size_t i = 0; i < reached.size(); ++i) {
      for (int64_t e = reached[i] * key.token_degree; e < (reached[i] + 1) * key.token_degree; ++e) {
        if (channel_seen[mask[e]]) continue;
        channel_seen[mask[e]] = in_tree[e] = true;
        for (int64_t j = 0; j < key.channel_degree(); ++j) {
          const int64_t back = by_channel[mask[e] * key.channel_degree() + j], token = back / key.token_degree;
          if (token_seen[token]) continue;
          token_seen[token] = in_tree[back] = true;
          reached.push_back(token);
        }
      }
    }
    int64_t outside = -1;
    for (const int64_t token : reached) {
      for (int64_t e = token * key.token_degree; e < (token + 1) * key.token_degree && outside < 0; ++e) {
        if (!in_tree[e]) outside = e;
      }
    }
    result.push_back(outside);
  }
  return result;
}

// Two components whose cycle edges trade channels are one, and both new edges lie on a cycle of it.
void merge_components(Mask& mask, const MaskKey& key) {
  const auto edges = cycle_edges(mask, key);
  for (size_t i = 1; i < edges.size(); ++i) std::swap(mask[edges[0]], mask[edges[i]]);
}

}  // namespace

int64_t token_degree(int64_t n_channels, int64_t n_tokens, double density) {
  const int64_t unit = n_channels / std::gcd(n_channels, n_tokens);  // m divides n * unit
  const auto wanted = static_cast<int64_t>(std::ceil(density * static_cast<double>(n_channels) - 1e-9));
  int64_t degree = unit;
  while (degree < std::max<int64_t>(wanted, 2) || n_tokens * degree / n_channels < 2) degree += unit;
  return degree;
}

Mask make_mask(const MaskKey& key) {
  KVC_CHECK(key.n_edges() % key.n_channels == 0 && key.token_degree >= 2 && key.channel_degree() >= 2 &&
                key.token_degree <= key.n_channels,
            "gearx: no regular mask with ", key.n_tokens, " tokens x ", key.n_channels, " channels has ",
            key.token_degree, " channels a token");
  for (int attempt = 0; attempt < kDraws; ++attempt) {
    Draws draws(key, attempt);
    auto mask = paired_stubs(key, draws);
    if (!remove_repetitions(mask, key, draws)) continue;
    merge_components(mask, key);
    for (auto row = mask.begin(); row != mask.end(); row += key.token_degree) std::sort(row, row + key.token_degree);
    if (second_singular_value(mask, key) <= kSlack * ramanujan_bound(key)) return mask;
  }
  throw kvc::Error(kvc::concat("gearx: ", kDraws, " masks of ", key.n_tokens, " tokens x ", key.n_channels,
                               " channels, ", key.token_degree, " a token, all expand too little"));
}

bool is_biregular(const Mask& mask, const MaskKey& key) {
  if (static_cast<int64_t>(mask.size()) != key.n_edges()) return false;
  std::vector<int64_t> count(static_cast<size_t>(key.n_channels));
  for (int64_t e = 0; e < key.n_edges(); ++e) {
    if (mask[e] >= key.n_channels) return false;
    if (e % key.token_degree > 0 && mask[e] <= mask[e - 1]) return false;
    ++count[mask[e]];
  }
  return std::all_of(count.begin(), count.end(), [&](int64_t n) { return n == key.channel_degree(); });
}

int64_t n_components(const Mask& mask, const MaskKey& key) {
  return static_cast<int64_t>(cycle_edges(mask, key).size());
}

double second_singular_value(const Mask& mask, const MaskKey& key, int64_t n_steps) {
  std::vector<double> x(static_cast<size_t>(key.n_tokens)), y(static_cast<size_t>(key.n_channels));
  Draws draws(key, -1);
  for (auto& value : x) value = static_cast<double>(draws.below(1 << 20));
  double value = 0;
  for (int64_t step = 0; step <= n_steps; ++step) {
    const double mean = std::accumulate(x.begin(), x.end(), 0.) / static_cast<double>(key.n_tokens);
    for (auto& entry : x) entry -= mean;
    const double norm = std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.));
    if (norm == 0) return 0;
    for (auto& entry : x) entry /= norm;
    std::fill(y.begin(), y.end(), 0.);
    for (int64_t e = 0; e < key.n_edges(); ++e) y[mask[e]] += x[e / key.token_degree];
    value = std::sqrt(std::inner_product(y.begin(), y.end(), y.begin(), 0.));
    std::fill(x.begin(), x.end(), 0.);
    for (int64_t e = 0; e < key.n_edges(); ++e) x[e / key.token_degree] += y[mask[e]];
  }
  return value;
}

double ramanujan_bound(const MaskKey& key) {
  return std::sqrt(static_cast<double>(key.token_degree - 1)) +
         std::sqrt(static_cast<double>(key.channel_degree() - 1));
}

}  // namespace gearx
