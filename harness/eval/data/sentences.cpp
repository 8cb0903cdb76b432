#include "data/sentences.h"

#include <algorithm>
#include <array>

namespace kvc {
namespace {

constexpr std::array<std::string_view, 14> kAbbreviations = {"Mr.",  "Mrs.", "Ms.",  "Dr.", "Prof.", "St.", "vs.",
                                                             "etc.", "e.g.", "i.e.", "cf.", "Jr.",   "Sr.", "No."};

bool is_capital(char c) { return c >= 'A' && c <= 'Z'; }
bool is_small(char c) { return c >= 'a' && c <= 'z'; }

bool may_end(std::string_view word) {
  while (!word.empty() && std::string_view("\"')]").find(word.back()) != std::string_view::npos) word.remove_suffix(1);
  if (word.ends_with("\u201d") || word.ends_with("\u2019")) word.remove_suffix(3);
  if (word.empty() || std::string_view(".!?").find(word.back()) == std::string_view::npos) return false;
  const bool is_initial = word.size() == 2 && is_capital(word[0]) && word[1] == '.' && word[0] != 'I';
  return !is_initial && std::find(kAbbreviations.begin(), kAbbreviations.end(), word) == kAbbreviations.end();
}

}  // namespace

std::vector<std::string> split_words(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\r\v\f";
  std::vector<std::string> words;
  for (size_t at = text.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = text.find_first_not_of(kBlanks, end);
  }
  return words;
}

std::vector<std::string> split_sentences(const std::vector<std::string>& words) {
  std::vector<std::string> sentences;
  bool begins = true;
  for (size_t i = 0; i < words.size(); ++i) {
    if (begins) {
      sentences.push_back(words[i]);
    } else {
      sentences.back() += " " + words[i];
    }
    begins = may_end(words[i]) && i + 1 < words.size() && !is_small(words[i + 1][0]);
  }
  return sentences;
}

}  // namespace kvc
