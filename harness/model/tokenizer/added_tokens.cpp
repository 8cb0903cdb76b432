#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "kvc/check.h"
#include "text/characters.h"
#include "text/utf8.h"

namespace kvc {
namespace {

// The code point that ends at text[end]; end > 0, text valid.
char32_t code_point_before(std::string_view text, size_t end) {
  return next_code_point(text, previous_code_point(text, end)).value;
}

bool is_within_word(std::string_view text, size_t begin, size_t end) {
  return (begin > 0 && is_word(code_point_before(text, begin))) ||
         (end < text.size() && is_word(next_code_point(text, end).value));
}

size_t skip_spaces_left(std::string_view text, size_t begin, size_t limit) {
  while (begin > limit && is_white_space(code_point_before(text, begin))) begin = previous_code_point(text, begin);
  return begin;
}

size_t skip_spaces_right(std::string_view text, size_t end) {
  while (end < text.size()) {
    const auto point = next_code_point(text, end);
    if (!is_white_space(point.value)) break;
    end += point.n_bytes;
  }
  return end;
}

}  // namespace

void AddedTokens::Finder::add(std::string_view text, const AddedToken& token) {
  uint64_t node = 0;
  for (const char byte : text) {
    node = next_.try_emplace(node << 8 | static_cast<unsigned char>(byte), next_.size() + 1).first->second;
  }
  if (node == 0) return;
  token_of_.insert_or_assign(node, token);
  begins_[static_cast<unsigned char>(text[0])] = true;
}

std::pair<size_t, const AddedToken*> AddedTokens::Finder::longest(std::string_view text, size_t at) const {
  std::pair<size_t, const AddedToken*> best{0, nullptr};
  uint64_t node = 0;
  for (size_t i = at; i < text.size(); ++i) {
    const auto edge = next_.find(node << 8 | static_cast<unsigned char>(text[i]));
    if (edge == next_.end()) break;
    node = edge->second;
    if (const auto found = token_of_.find(node); found != token_of_.end()) best = {i + 1 - at, &found->second};
  }
  return best;
}

void AddedTokens::Finder::split(const Segment& segment, std::vector<Segment>& out) const {
  const std::string_view text = segment.text;
  const auto add_text = [&](size_t begin, size_t end) {
    if (begin < end)
      out.push_back({std::string(text.substr(begin, end - begin)), std::nullopt, segment.at_start && begin == 0});
  };
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    if (!begins_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    const auto [length, token] = longest(text, at);
    if (length == 0) {
      ++at;
      continue;
    }
    const size_t begin = at, end = at + length;
    at = end;
    if (token->single_word && is_within_word(text, begin, end)) continue;
    const size_t from = token->lstrip ? skip_spaces_left(text, begin, std::min(done, begin)) : begin;
    add_text(done, from);
    out.push_back({std::string(text.substr(begin, length)), token->id, segment.at_start && from == 0});
    done = token->rstrip ? skip_spaces_right(text, end) : end;
  }
  add_text(done, text.size());
}

AddedToken AddedToken::parse(const JsonObject& entry, int64_t id, bool is_special) {
  return {id,
          entry.text("content"),
          is_special,
          entry.boolean("lstrip", false),
          entry.boolean("rstrip", false),
          entry.boolean("single_word", false),
          entry.boolean("normalized", !is_special)};
}

AddedTokens AddedTokens::parse(const nlohmann::json& value, const std::string& where,
                               const std::vector<TextStep>& normalizer) {
  AddedTokens tokens;
  if (value.is_null()) return tokens;
  KVC_CHECK(value.is_array(), where, ": ", brief(value), ", expected an array");
  for (size_t i = 0; i < value.size(); ++i) {
    const JsonObject entry(value[i], concat(where, "[", i, "]"));
    tokens.add(AddedToken::parse(entry, entry.integer("id", 0, INT32_MAX), entry.boolean("special", false)),
               entry.where(), normalizer);
  }
  return tokens;
}

void AddedTokens::add(const AddedToken& token, const std::string& where, const std::vector<TextStep>& normalizer) {
  const auto matched = token.is_normalized ? normalize(token.text, normalizer) : token.text;
  const bool is_new = texts_.emplace(token.id, matched).second && ids_.emplace(token.text, token.id).second;
  KVC_CHECK(is_new, where, ": ", in_quotes(token.text), " with id ", token.id,
            ": the text or the id is taken by another token");
  if (token.is_special) special_.insert(token.id);
  (token.is_normalized ? normalized_ : as_written_).add(matched, token);
}

std::vector<Segment> AddedTokens::split(std::string_view text, const std::vector<TextStep>& normalizer) const {
  std::vector<Segment> cut, out;
  as_written_.split({std::string(text), std::nullopt, true}, cut);
  for (auto& segment : cut) {
    if (segment.id) {
      out.push_back(std::move(segment));
      continue;
    }
    segment.text = normalize(std::move(segment.text), normalizer);
    normalized_.split(segment, out);
  }
  return out;
}

}  // namespace kvc
