// Random numbers of questions that are made, the same on every machine: the standard library's distributions differ
// from library to library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace kvc {

// SplitMix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t n) { return next() % n; }  // the bias is below n / 2^64

  template <class T>
  void shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

  // k different ones of 0 to n - 1, in the order in which they were drawn; k <= n.
  std::vector<size_t> sample(size_t n, size_t k) {
    std::vector<size_t> all(n);
    for (size_t i = 0; i < n; ++i) all[i] = i;
    for (size_t i = 0; i < k; ++i) std::swap(all[i], all[i + below(n - i)]);
    all.resize(k);
    return all;
  }

 private:
  uint64_t state_;
};

// A stream for each place of a list: what is drawn for one stays the same where others are added.
inline Random random_of(uint64_t seed, uint64_t place) { return Random(seed ^ (place * 0xd1342543de82ef95u)); }

}  // namespace kvc
