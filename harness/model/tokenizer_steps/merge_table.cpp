#include "tokenizer_steps/merge_table.h"

#include <algorithm>
#include <bit>
#include <queue>

#include "kvc/check.h"

namespace kvc {
namespace {

constexpr size_t kShort = 48;  // symbols; up to here, scanning all pairs for the least rank beats a heap

}  // namespace

void MergeTable::reset(size_t n_merges) {
  const size_t n_slots = std::bit_ceil(2 * n_merges + 2);
  slots_.assign(n_slots, {});
  shift_ = 64 - std::countr_zero(n_slots);
  n_merges_ = 0;
}

void MergeTable::set(int32_t left, int32_t right, Merge merge) {
  const auto pair = pair_(left, right);
  size_t at = first_slot_(pair);
  while (slots_[at].pair != kEmpty && slots_[at].pair != pair) at = (at + 1) & (slots_.size() - 1);
  if (slots_[at].pair == kEmpty) {
    KVC_CHECK(2 * (n_merges_ + 1) <= slots_.size(), "merge table: no room for more than ", n_merges_, " merges");
    ++n_merges_;
  }
  slots_[at] = {pair, merge};
}

Merge MergeTable::find(int32_t left, int32_t right) const {
  if (slots_.empty()) return {};
  const auto pair = pair_(left, right);
  for (size_t at = first_slot_(pair);; at = (at + 1) & (slots_.size() - 1)) {
    if (slots_[at].pair == pair) return slots_[at].merge;
    if (slots_[at].pair == kEmpty) return {};
  }
}

void MergeTable::apply(std::vector<int32_t>& ids) const {
  if (ids.size() < 2) return;
  ids.size() <= kShort ? apply_short_(ids) : apply_long_(ids);
}

void MergeTable::apply_short_(std::vector<int32_t>& ids) const {
  Merge merges[kShort];  // of each id and the next
  size_t n = ids.size();
  for (size_t i = 0; i + 1 < n; ++i) merges[i] = find(ids[i], ids[i + 1]);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].id < 0) break;
    ids[best] = merges[best].id;
    --n;
    std::copy(ids.begin() + static_cast<ptrdiff_t>(best) + 2, ids.begin() + static_cast<ptrdiff_t>(n) + 1,
              ids.begin() + static_cast<ptrdiff_t>(best) + 1);
    if (best + 1 < n) {
      std::copy(merges + best + 2, merges + n, merges + best + 1);
      merges[best] = find(ids[best], ids[best + 1]);
    }
    if (best > 0) merges[best - 1] = find(ids[best - 1], ids[best]);
  }
  ids.resize(n);
}

// O(n log n): a heap of (rank, place) over a linked list. What a later merge changed is recognized by its rank.
void MergeTable::apply_long_(std::vector<int32_t>& ids) const {
  KVC_CHECK(ids.size() <= INT32_MAX, "byte-pair encoding: a piece of ", ids.size(), " symbols, allowed: ", INT32_MAX);
  struct Link {
    uint32_t previous, next;  // kNone at the ends
    Merge merge;              // with the next
  };
  constexpr uint32_t kNone = UINT32_MAX;
  const auto n = static_cast<uint32_t>(ids.size());
  std::vector<Link> links(n);
  std::vector<uint64_t> candidates;
  for (uint32_t i = 0; i < n; ++i) {
    links[i] = {i > 0 ? i - 1 : kNone, i + 1 < n ? i + 1 : kNone, {}};
    if (i + 1 < n) links[i].merge = find(ids[i], ids[i + 1]);
    if (links[i].merge.id >= 0) candidates.push_back(uint64_t{links[i].merge.rank} << 32 | i);
  }
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> queue({}, std::move(candidates));
  const auto update = [&](uint32_t at) {
    auto& link = links[at];
    link.merge = link.next == kNone ? Merge{} : find(ids[at], ids[link.next]);
    if (link.merge.id >= 0) queue.push(uint64_t{link.merge.rank} << 32 | at);
  };
  while (!queue.empty()) {
    const auto at = static_cast<uint32_t>(queue.top());
    const auto rank = static_cast<uint32_t>(queue.top() >> 32);
    queue.pop();
    if (links[at].merge.id < 0 || links[at].merge.rank != rank) continue;
    const auto gone = links[at].next;
    ids[at] = links[at].merge.id;
    ids[gone] = -1;
    links[gone].merge = {};
    links[at].next = links[gone].next;
    if (links[at].next != kNone) links[links[at].next].previous = at;
    update(at);
    if (links[at].previous != kNone) update(links[at].previous);
  }
  std::erase(ids, -1);
}

}  // namespace kvc
