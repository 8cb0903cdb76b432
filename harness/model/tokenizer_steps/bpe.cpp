#include "tokenizer_steps/bpe.h"

#include <cstdio>
#include <unordered_set>

#include "kvc/check.h"
#include "text/utf8.h"
#include "tokenizer_steps/byte_level.h"

namespace kvc {
namespace {

constexpr int64_t kMaxId = (1 << 24) - 1;  // of the largest vocabulary that config.json may name

}  // namespace

void Bpe::read_vocab_(const JsonObject& model) {
  const auto vocab = model.object("vocab");
  for (const auto& [token, id] : vocab.json().items()) {
    const int64_t value = vocab.integer(token, 0, kMaxId);
    ids_.emplace(token, value);
    const auto [entry, is_new] = tokens_.emplace(value, token);
    KVC_CHECK(is_new, vocab.where(), ": id ", value, " is used by both ", in_quotes(entry->second), " and ",
              in_quotes(token));
  }
}

// "a b" or ["a", "b"], the most important merge first
void Bpe::read_merges_(const JsonObject& model) {
  const auto& merges = model.array("merges");
  merges_.reset(merges.size());
  uint32_t rank = 0;
  for (const auto& merge : merges) {
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
    const auto pair = std::pair(static_cast<int32_t>(*left_id), static_cast<int32_t>(*right_id));
    merges_.set(pair.first, pair.second, {rank, static_cast<int32_t>(*merged_id)});
    merge_order_.push_back(pair);
    ++rank;
  }
}

void Bpe::read_unknown_(const JsonObject& model) {
  fuse_unknown_ = model.boolean("fuse_unk", false);
  if (model.has("unk_token")) {
    const auto unknown = id(model.text("unk_token"));
    KVC_CHECK(unknown, model.where(), ": unk_token ", in_quotes(model.text("unk_token")), " is not in the vocabulary");
    unknown_id_ = static_cast<int32_t>(*unknown);
  }
  if (model.boolean("byte_fallback", false)) {
    for (int byte = 0; byte < 256; ++byte) {
      char name[8];
      std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
      byte_ids_.push_back(static_cast<int32_t>(id(name).value_or(-1)));
    }
  }
}

Bpe Bpe::parse(const JsonObject& model, bool in_byte_alphabet) {
  const auto type = model.text("type", "BPE");
  KVC_CHECK(type == "BPE", model.where(), ": type ", in_quotes(type), " is not supported; supported: BPE");
  for (const char* field : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    KVC_CHECK(model.text(field, "").empty(), model.where(), ": ", field, " is ", in_quotes(model.text(field, "")),
              ", supported: none");
  }
  if (model.has("dropout")) model.number("dropout", 0.0, 0.0);
  Bpe bpe;
  bpe.read_vocab_(model);
  bpe.read_merges_(model);
  bpe.read_unknown_(model);
  bpe.whole_piece_first_ = model.boolean("ignore_merges", false);
  bpe.takes_bytes_ = in_byte_alphabet && bpe.index_bytes_();
  if (!bpe.takes_bytes_) {
    bpe.index_characters_();
    bpe.find_openers_();
  }
  bpe.index_words_();
  return bpe;
}

// False where the vocabulary lacks a byte for which another token would stand; one without any is left out of a piece.
bool Bpe::index_bytes_() {
  std::vector<int32_t> of_byte;
  for (int byte = 0; byte < 256; ++byte) {
    const auto known = id(bytes_to_alphabet(std::string(1, static_cast<char>(byte))));
    if (!known && (unknown_id_ || !byte_ids_.empty())) return false;
    of_byte.push_back(static_cast<int32_t>(known.value_or(-1)));
  }
  characters_ = std::move(of_byte);
  return true;
}

void Bpe::index_characters_() {
  for (const auto& [token, id] : ids_) {
    if (token.empty() || !is_utf8(token)) continue;
    const auto first = next_code_point(token, 0);
    if (first.n_bytes != token.size()) continue;
    if (first.value >= characters_.size()) characters_.resize(first.value + 1, -1);
    characters_[first.value] = static_cast<int32_t>(id);
  }
}

// An opener is a character that no merge puts behind another one (in Llama's vocabulary the space sign). No merge
// crosses the border between another character and an opener, so that a text falls into words that are encoded apart.
void Bpe::find_openers_() {
  std::vector<bool> closed(characters_.size());
  std::unordered_set<int32_t> atoms(byte_ids_.begin(), byte_ids_.end());  // symbols that are no characters
  if (unknown_id_) atoms.insert(*unknown_id_);
  for (const auto& [left, right] : std::exchange(merge_order_, {})) {
    if (atoms.contains(left) || atoms.contains(right) || atoms.contains(merges_.find(left, right).id)) return;
    const auto &before = tokens_.at(left), &behind = tokens_.at(right);
    const char32_t first = next_code_point(behind, 0).value;
    const char32_t last = next_code_point(before, previous_code_point(before, before.size())).value;
    if (last != first && first < closed.size()) closed[first] = true;
  }
  for (size_t c = 0; c < characters_.size(); ++c) {
    const auto id = characters_[c];
    if (id < 0 || closed[c] || atoms.contains(id)) continue;
    if (static_cast<size_t>(id) >= is_opener_.size()) is_opener_.resize(static_cast<size_t>(id) + 1);
    is_opener_[static_cast<size_t>(id)] = true;
  }
}

// Most words are one token. Their merges are tried here once, so that a look-up finds them; what is not found is
// merged.
void Bpe::index_words_() {
  WordTable words;
  words.reset(tokens_.size());
  for (const auto& [id, token] : tokens_) {
    const auto word = takes_bytes_ ? alphabet_to_bytes(token) : token;
    if (!word || word->empty() || !is_utf8(token)) continue;
    if (!whole_piece_first_) {
      std::vector<int64_t> ids;
      encode(*word, ids);
      if (ids != std::vector<int64_t>{id}) continue;
    }
    words.add(*word, static_cast<int32_t>(id));
  }
  words_ = std::move(words);
}

std::optional<int64_t> Bpe::id(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

const std::string* Bpe::token(int64_t id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second;
}

// A character without an id: its bytes where byte fallback has them all; else the unknown token, once for a run of
// unknown characters where they are fused; nothing where there is no unknown token either. Returns whether it is one.
bool Bpe::add_unknown_(std::string_view character, bool after_unknown, std::vector<int32_t>& symbols) const {
  bool has_bytes = !byte_ids_.empty();
  for (const char byte : character) has_bytes = has_bytes && byte_ids_[static_cast<unsigned char>(byte)] >= 0;
  if (has_bytes) {
    for (const char byte : character) symbols.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
    return false;
  }
  if (!unknown_id_) return after_unknown;
  if (!(fuse_unknown_ && after_unknown)) symbols.push_back(*unknown_id_);
  return true;
}

void Bpe::add_word_(std::string_view word, std::vector<int32_t>& symbols, std::vector<int64_t>& ids) const {
  const auto whole = symbols.size() > 1 && !whole_piece_first_ ? words_.find(word) : -1;
  if (whole >= 0) {
    ids.push_back(whole);
  } else {
    merges_.apply(symbols);
    ids.insert(ids.end(), symbols.begin(), symbols.end());
  }
  symbols.clear();
}

void Bpe::encode_characters_(std::string_view piece, std::vector<int64_t>& ids) const {
  std::vector<int32_t> symbols;
  size_t word = 0;
  int32_t before = -1;
  bool in_unknown = false;
  for (size_t at = 0; at < piece.size();) {
    const auto point = next_code_point(piece, at);
    const int32_t symbol = symbol_(point.value);
    if (symbol < 0) {
      in_unknown = add_unknown_(piece.substr(at, point.n_bytes), in_unknown, symbols);
    } else {
      if (symbol != before && at > word && static_cast<size_t>(symbol) < is_opener_.size() &&
          is_opener_[static_cast<size_t>(symbol)]) {
        add_word_(piece.substr(word, at - word), symbols, ids);
        word = at;
      }
      symbols.push_back(symbol);
      in_unknown = false;
    }
    before = symbol;
    at += point.n_bytes;
  }
  add_word_(piece.substr(word), symbols, ids);
}

void Bpe::encode(std::string_view piece, std::vector<int64_t>& ids) const {
  if (takes_bytes_ || whole_piece_first_) {
    if (const auto whole = words_.find(piece); whole >= 0) return ids.push_back(whole);
  }
  if (!takes_bytes_) return encode_characters_(piece, ids);
  std::vector<int32_t> symbols;
  symbols.reserve(piece.size());
  for (const char byte : piece) {
    if (const auto symbol = characters_[static_cast<unsigned char>(byte)]; symbol >= 0) symbols.push_back(symbol);
  }
  merges_.apply(symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

}  // namespace kvc
