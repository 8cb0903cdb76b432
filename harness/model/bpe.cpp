#include "model/bpe.h"

#include <cstdio>
#include <queue>

#include "kvc/check.h"
#include "model/utf8.h"
#include "text/utf8.h"

namespace kvc {

void Bpe::read_vocab(const JsonObject& model) {
  const auto vocab = model.object("vocab");
  for (const auto& [token, id] : vocab.json().items()) {
    const int64_t value = vocab.integer(token, 0, INT32_MAX);
    ids_.emplace(token, value);
    const auto [entry, is_new] = tokens_.emplace(value, token);
    KVC_CHECK(is_new, vocab.where(), ": id ", value, " stands for ", in_quotes(entry->second), " and for ",
              in_quotes(token));
  }
}

// "a b" or ["a", "b"], the most important merge first
void Bpe::read_merges(const JsonObject& model) {
  int64_t rank = 0;
  for (const auto& merge : model.array("merges")) {
    std::string left, right;
    if (merge.is_string()) {
      const auto& text = merge.get_ref<const std::string&>();
      const auto space = text.find(' ');
      if (space != std::string::npos) left = text.substr(0, space), right = text.substr(space + 1);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      left = merge[0], right = merge[1];
    }
    KVC_CHECK(!left.empty() && !right.empty(), model.where(), ": merges[", rank, "] is ", brief(merge),
              ", expected \"a b\" or [\"a\", \"b\"]");
    const auto left_id = id(left), right_id = id(right), merged_id = id(left + right);
    KVC_CHECK(left_id && right_id && merged_id, model.where(), ": merges[", rank, "] is ", brief(merge), ": ",
              in_quotes(!left_id    ? left
                        : !right_id ? right
                                    : left + right),
              " is not in the vocabulary");
    merges_[pair_key(*left_id, *right_id)] = {rank, *merged_id};
    ++rank;
  }
}

Bpe Bpe::parse(const JsonObject& model) {
  const auto type = model.text("type", "BPE");
  KVC_CHECK(type == "BPE", model.where(), ": type ", in_quotes(type), " is not supported; supported: BPE");
  for (const char* field : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    KVC_CHECK(model.text(field, "").empty(), model.where(), ": ", field, " is ", in_quotes(model.text(field, "")),
              ", supported: none");
  }
  if (model.has("dropout")) model.number("dropout", 0.0, 0.0);
  Bpe bpe;
  bpe.read_vocab(model);
  bpe.read_merges(model);
  bpe.fuse_unknown_ = model.boolean("fuse_unk", false);
  bpe.whole_piece_first_ = model.boolean("ignore_merges", false);
  if (model.has("unk_token")) {
    bpe.unknown_id_ = bpe.id(model.text("unk_token"));
    KVC_CHECK(bpe.unknown_id_, model.where(), ": unk_token ", in_quotes(model.text("unk_token")),
              " is not in the vocabulary");
  }
  if (model.boolean("byte_fallback", false)) {
    for (int byte = 0; byte < 256; ++byte) {
      char name[8];
      std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
      bpe.byte_ids_.push_back(bpe.id(name).value_or(-1));
    }
  }
  return bpe;
}

std::optional<int64_t> Bpe::id(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

// One id a character; its bytes where it has none and byte fallback has them all; the unknown token otherwise, once
// for a run of unknown characters where they are fused; nothing where there is no unknown token either.
std::vector<int64_t> Bpe::characters(std::string_view piece) const {
  std::vector<int64_t> ids;
  bool in_unknown_run = false;
  for (size_t at = 0; at < piece.size();) {
    const auto character = piece.substr(at, static_cast<size_t>(next_code_point(piece, at).n_bytes));
    at += character.size();
    if (const auto known = id(character)) {
      ids.push_back(*known);
      in_unknown_run = false;
      continue;
    }
    bool has_bytes = !byte_ids_.empty();
    for (const char byte : character) has_bytes = has_bytes && byte_ids_[static_cast<unsigned char>(byte)] >= 0;
    if (has_bytes) {
      for (const char byte : character) ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
      in_unknown_run = false;
    } else if (unknown_id_ && !(fuse_unknown_ && in_unknown_run)) {
      ids.push_back(*unknown_id_);
      in_unknown_run = true;
    }
  }
  return ids;
}

// Merges the pair of least rank, the leftmost of equals, until none is left: O(n log n) with a heap over a linked list.
void Bpe::merge_(std::vector<int64_t>& ids) const {
  struct Candidate {
    int64_t rank, left, merged_id;
    bool operator<(const Candidate& other) const { return std::pair(rank, left) > std::pair(other.rank, other.left); }
  };
  const auto n = static_cast<int64_t>(ids.size());
  std::vector<int64_t> next(ids.size()), previous(ids.size());
  std::vector<Candidate> found;
  const auto candidate = [&](int64_t left, int64_t right) -> std::optional<Candidate> {
    const auto merge = merges_.find(pair_key(ids[static_cast<size_t>(left)], ids[static_cast<size_t>(right)]));
    if (merge == merges_.end()) return std::nullopt;
    return Candidate{merge->second.rank, left, merge->second.id};
  };
  for (int64_t i = 0; i < n; ++i) {
    previous[static_cast<size_t>(i)] = i - 1;
    next[static_cast<size_t>(i)] = i + 1;
    if (i + 1 < n) {
      if (const auto one = candidate(i, i + 1)) found.push_back(*one);
    }
  }
  std::priority_queue<Candidate> queue({}, std::move(found));
  while (!queue.empty()) {
    const auto best = queue.top();
    queue.pop();
    const auto left = static_cast<size_t>(best.left);
    if (ids[left] < 0 || next[left] >= n) continue;  // merged into another since
    const auto now = candidate(best.left, next[left]);
    if (!now || now->merged_id != best.merged_id) continue;
    const auto right = static_cast<size_t>(next[left]);
    ids[left] = best.merged_id;
    ids[right] = -1;
    next[left] = next[right];
    if (next[left] < n) {
      previous[static_cast<size_t>(next[left])] = best.left;
      if (const auto one = candidate(best.left, next[left])) queue.push(*one);
    }
    if (previous[left] >= 0) {
      if (const auto one = candidate(previous[left], best.left)) queue.push(*one);
    }
  }
  std::erase(ids, -1);
}

void Bpe::encode(std::string_view piece, std::vector<int64_t>& ids) const {
  if (whole_piece_first_) {
    if (const auto whole = id(piece)) return ids.push_back(*whole);
  }
  auto symbols = characters(piece);
  merge_(symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

}  // namespace kvc
