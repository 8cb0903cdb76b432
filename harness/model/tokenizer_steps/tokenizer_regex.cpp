#include "tokenizer_steps/tokenizer_regex.h"

#include <utility>

#include "kvc/check.h"
#include "text/utf8.h"

namespace kvc {
namespace {

// Oniguruma's \s and \w follow the Unicode properties, PCRE2's differ by some characters (U+180E, combining marks).
constexpr std::string_view kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}";

std::string to_pcre2(const std::string& pattern, const std::string& where) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      if (pattern[i] == '[') in_class = true;
      if (pattern[i] == ']') in_class = false;
      out += pattern[i];
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped == 's') {
      out += "\\p{White_Space}";
    } else if (escaped == 'S') {
      out += "\\P{White_Space}";
    } else if (escaped == 'w') {
      out += in_class ? std::string(kWord) : concat("[", kWord, "]");
    } else if (escaped == 'W') {
      KVC_CHECK(!in_class, where, ": regex ", in_quotes(pattern), ": \\W within [...] is not supported");
      out += concat("[^", kWord, "]");
    } else {
      out += {'\\', escaped};
    }
  }
  return out;
}

Pcre compile(const std::string& pattern, const std::string& where) {
  constexpr size_t kStack = 64 << 20;
  check_utf8(pattern, where + ": regex");
  const auto translated = to_pcre2(pattern, where);
  try {
    return Pcre(translated, {.stack = kStack});
  } catch (const PcreError& error) {
    throw Error(concat(where, ": regex ", in_quotes(pattern), ": ", error.reason, " at offset ", error.at, " of ",
                       in_quotes(translated)));
  }
}

}  // namespace

TokenizerRegex::TokenizerRegex(std::string pattern, std::string where)
    : pattern_(std::move(pattern)), where_(std::move(where)), code_(compile(pattern_, where_)) {}

std::vector<Match> TokenizerRegex::find_all(std::string_view text) const try {
  std::vector<Match> matches;
  matches.reserve(text.size() / 4);
  code_.each_match(text, [&](const size_t* bounds) {
    if (bounds[0] < bounds[1]) matches.push_back({bounds[0], bounds[1]});
    return true;
  });
  return matches;
} catch (const PcreError& error) {
  throw Error(concat(where_, ": regex ", in_quotes(pattern_), " at byte ", error.at, " of the text: ", error.reason));
}

std::string TokenizerRegex::escape(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (std::string_view("\\^$.|?*+()[]{}-#/&~ ").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

}  // namespace kvc
