#include "scoring/token_f1.h"

#include <algorithm>
#include <unordered_map>

#include "scoring/chinese_words.h"
#include "scoring/unicode.h"
#include "text/characters.h"
#include "text/utf8.h"

namespace kvc {
namespace {

bool is_ascii_punctuation(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

// The CJK and typographic marks that the Chinese rule deletes. U+300A and U+FF0E are not among them.
bool is_listed_punctuation(char32_t c) {
  return (c >= 0xFF01 && c <= 0xFF0F && c != 0xFF0E) || (c >= 0xFF1A && c <= 0xFF20) || (c >= 0xFF3B && c <= 0xFF40) ||
         (c >= 0xFF5B && c <= 0xFF64) || c == 0x3001 || c == 0x3002 || c == 0x3003 || (c >= 0x300B && c <= 0x3011) ||
         (c >= 0x3014 && c <= 0x301F) || c == 0x3030 || c == 0x303E || c == 0x303F || c == 0x2013 || c == 0x2014 ||
         (c >= 0x2018 && c <= 0x201F && c != 0x201A) || c == 0x2026 || c == 0x2027 || c == 0xFE4F;
}

// Whole words a, an, the become a blank; a word is a run of word characters, as by re's \b.
void blank_articles(std::u32string& text) {
  std::u32string result;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    while (end < text.size() && is_word_char(text[end])) ++end;
    if (end == begin) {
      result += text[begin++];
      continue;
    }
    const auto word = std::u32string_view(text).substr(begin, end - begin);
    const bool is_article = word == U"a" || word == U"an" || word == U"the";
    result += is_article ? U" " : word;
    begin = end;
  }
  text = std::move(result);
}

std::u32string normalized_english(std::string_view text) {
  auto points = to_code_points_replacing(lower(text));
  std::erase_if(points, is_ascii_punctuation);
  blank_articles(points);
  return points;
}

std::vector<std::u32string> normalized_chinese(std::string_view text, const ChineseWords& segmenter) {
  std::vector<std::u32string> result;
  const auto points = to_code_points_replacing(text);
  for (const auto& word : segmenter.cut(points)) {
    auto normal = to_code_points_replacing(lower(to_utf8(word)));
    std::erase_if(normal,
                  [](char32_t c) { return is_ascii_punctuation(c) || is_listed_punctuation(c) || is_space(c); });
    if (!normal.empty()) result.push_back(std::move(normal));
  }
  return result;
}

}  // namespace

double bag_f1(const std::vector<std::u32string_view>& prediction, const std::vector<std::u32string_view>& gold) {
  std::unordered_map<std::u32string_view, int64_t> left;
  for (const auto& word : gold) ++left[word];
  int64_t n_same = 0;
  for (const auto& word : prediction) {
    const auto found = left.find(word);
    if (found == left.end() || found->second == 0) continue;
    --found->second;
    ++n_same;
  }
  if (n_same == 0) return 0;
  const double precision = static_cast<double>(n_same) / static_cast<double>(prediction.size());
  const double recall = static_cast<double>(n_same) / static_cast<double>(gold.size());
  return (2 * precision * recall) / (precision + recall);
}

double token_f1(std::string_view prediction, std::string_view gold) {
  const auto a = normalized_english(prediction), b = normalized_english(gold);
  return bag_f1(split_at_space(a), split_at_space(b));
}

double token_f1(std::string_view prediction, std::string_view gold, const ChineseWords& words) {
  const auto a = normalized_chinese(prediction, words), b = normalized_chinese(gold, words);
  return bag_f1({a.begin(), a.end()}, {b.begin(), b.end()});
}

}  // namespace kvc
