// The merges of byte-pair encoding: which two tokens become which third, the most important first.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace kvc {

struct Merge {
  uint32_t rank = UINT32_MAX;  // 0 is the most important; UINT32_MAX: no merge
  int32_t id = -1;             // of the merged token
};

class MergeTable {
 public:
  // Empties the table and makes room for so many merges.
  void reset(size_t n_merges);
  // A pair that is there already takes the new rank and id.
  void set(int32_t left, int32_t right, Merge merge);
  Merge find(int32_t left, int32_t right) const;

  // Merges the pair of least rank, the leftmost of equals, until none is left. In place; the rest is cut off.
  void apply(std::vector<int32_t>& ids) const;

 private:
  struct Slot {
    uint64_t pair = kEmpty;
    Merge merge;
  };
  static constexpr uint64_t kEmpty = UINT64_MAX;

  static uint64_t pair_(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t first_slot_(uint64_t pair) const { return (pair * 0x9E3779B97F4A7C15u) >> shift_; }
  void apply_short_(std::vector<int32_t>& ids) const;
  void apply_long_(std::vector<int32_t>& ids) const;

  std::vector<Slot> slots_;  // a power of two of them, at most half of them used
  int shift_ = 63;
  size_t n_merges_ = 0;
};

}  // namespace kvc
