#include "scoring/latex_unit.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "scoring/unicode.h"

namespace kvc {
namespace {

using UnitNames = std::map<std::string_view, std::string_view>;

// Lower case, by one spelling. Those of two letters and more are units without \text, too.
const UnitNames& unit_names() {
  static const UnitNames kNames = {
      {"cm", "centimeter"},
      {"mm", "millimeter"},
      {"km", "kilometer"},
      {"m", "meter"},
      {"nm", "nanometer"},
      {"in", "inch"},
      {"inches", "inch"},
      {"ft", "foot"},
      {"feet", "foot"},
      {"yd", "yard"},
      {"mi", "mile"},
      {"kg", "kilogram"},
      {"g", "gram"},
      {"mg", "milligram"},
      {"lb", "pound"},
      {"lbs", "pound"},
      {"oz", "ounce"},
      {"l", "liter"},
      {"ml", "milliliter"},
      {"s", "second"},
      {"sec", "second"},
      {"secs", "second"},
      {"min", "minute"},
      {"mins", "minute"},
      {"h", "hour"},
      {"hr", "hour"},
      {"hrs", "hour"},
      {"mph", "mile/hour"},
      {"sq", "square"},
      {"squared", "square"},
      {"deg", "degree"},
      {"metre", "meter"},
      {"centimetre", "centimeter"},
      {"kilometre", "kilometer"},
      {"millimetre", "millimeter"},
      {"litre", "liter"},
      {"percentage", "percent"},
      {"usd", "dollar"},
      {"eur", "euro"},
      {"hz", "hertz"},
      {"cubed", "cubic"},
      {"people", "person"},
      {"men", "man"},
      {"women", "woman"},
      {"days", "day"},
      {"kph", "kilometer/hour"},
      {"rad", "radian"},
      {"units", "unit"},
  };
  return kNames;
}

// Words that make of a value another, or of a text a sentence.
bool changes_value(std::string_view word) {
  static const std::set<std::string_view> kWords = {
      "and",     "or",       "to",       "if",        "is",        "are",       "not",      "no",      "none",
      "than",    "more",     "less",     "fewer",     "greater",   "larger",    "smaller",  "least",   "most",
      "between", "from",     "mod",      "base",      "remainder", "am",        "pm",       "a",       "p",
      "ad",      "bc",       "bce",      "ce",        "hundred",   "thousand",  "million",  "billion", "trillion",
      "dozen",   "below",    "above",    "under",     "over",      "when",      "where",    "for",     "with",
      "all",     "any",      "r",        "only",      "plus",      "minus",     "times",    "by",      "but",
      "except",  "noon",     "midnight", "morning",   "evening",   "afternoon", "half",     "quarter", "quarters",
      "halves",  "negative", "positive", "undefined", "does",      "solution",  "solutions"};
  return kWords.contains(word);
}

std::string unit_name(const std::string& word) {
  const auto& names = unit_names();
  if (const auto known = names.find(word); known != names.end()) return std::string(known->second);
  const bool is_plural = word.size() > 3 && word.ends_with('s') && !word.ends_with("ss");
  return is_plural ? unit_name(word.substr(0, word.size() - 1)) : word;
}

// Without \text a word is a unit by its name, or by its length where a space precedes it.
bool is_unit_word(const LatexTokens& tokens, size_t begin, size_t end) {
  if (tokens[begin].is_text) return true;
  if (end - begin < 2) return false;
  const auto letters = letters_of(tokens, begin, end);
  const auto word = lower(letters);
  const auto name = word.size() > 2 && word.ends_with('s') ? word.substr(0, word.size() - 1) : word;
  const bool is_known = unit_names().contains(word) || unit_names().contains(name);
  return letters == word && (is_known || (tokens[begin].after_space && end - begin >= 4));
}

// Reads a unit to the end of the tokens; nothing where something is none.
class UnitReader {
 public:
  UnitReader(const LatexTokens& tokens, size_t at) : tokens_(tokens), at_(at) {}

  std::optional<std::string> read() {
    while (at_ < tokens_.size()) {
      if (!step()) return std::nullopt;
    }
    return depth_ == 0 && power_.empty() ? std::optional(unit_) : std::nullopt;
  }

 private:
  bool step() {
    if (is_letter(tokens_[at_])) return word();
    const auto& name = tokens_[at_].name;
    if (name == "^") return script();
    if (name != "/" && name != "\\cdot" && name != "-" && name != "{" && name != "}" && name != "\\frac") return false;
    depth_ += (name == "{") - (name == "}");
    const bool divides = name == "/" || (name == "{" && at_ > 0 && tokens_[at_ - 1].name == "}");
    if (divides) unit_ += '/';
    ++at_;
    return depth_ >= 0;
  }

  bool word() {
    const size_t end = end_of_word(tokens_, at_);
    const auto word = lower(letters_of(tokens_, at_, end));
    if (!is_unit_word(tokens_, at_, end) || changes_value(word)) return false;
    at_ = end;
    const auto name = unit_name(word);
    if (name == "per") {
      unit_ += '/';
    } else if (name == "square" || name == "cubic") {
      power_ = name == "square" ? "^2" : "^3";
    } else if (name != "of" && name != "the") {
      unit_ += name + std::exchange(power_, "");
    }
    if (at_ == tokens_.size() && !unit_.empty()) unit_ += std::exchange(power_, "");  // meters squared
    return true;
  }

  // Of a power digits and a minus, in braces or not; a text (5^{th}) as it is.
  bool script() {
    unit_ += '^';
    ++at_;
    const bool is_braced = at_ < tokens_.size() && tokens_[at_].name == "{";
    for (at_ += is_braced; at_ < tokens_.size(); ++at_) {
      const auto& token = tokens_[at_];
      if (!is_digit(token) && token.name != "-") break;
      unit_ += token.name;
      if (!is_braced && is_digit(token)) return ++at_, true;
    }
    if (!is_braced) return false;
    return at_ < tokens_.size() && tokens_[at_++].name == "}";
  }

  const LatexTokens& tokens_;
  size_t at_;
  int depth_ = 0;
  std::string unit_, power_;
};

// Where the text after a value begins, outside of braces and brackets; nothing where no value precedes it.
std::optional<size_t> begin_of_unit(const LatexTokens& tokens) {
  int depth = 0;
  bool has_value = false;
  for (size_t at = 0; at < tokens.size(); ++at) {
    const auto& token = tokens[at];
    const bool is_word = is_letter(token);
    const size_t end = is_word ? end_of_word(tokens, at) : at + 1;
    const bool is_fraction = has_value && token.name == "\\frac" && at + 2 < tokens.size() &&
                             tokens[at + 1].name == "{" && tokens[at + 2].is_text && is_letter(tokens[at + 2]);
    if (depth == 0 && ((is_word && is_unit_word(tokens, at, end)) || is_fraction)) {
      return has_value ? std::optional(at) : std::nullopt;
    }
    depth += bracket_step(token) + (token.name == "{") - (token.name == "}");
    has_value = has_value || (!token.is_text && token.name != "-" && token.name != "+") || is_digit(token);
    at = end - 1;
  }
  return std::nullopt;
}

std::string sign_name(const std::string& token) {
  static const UnitNames kNames = {{"\\$", "dollar"},  {"\\euro", "euro"}, {"\\pounds", "pound"}, {"\\yen", "yen"},
                                   {"\\cent", "cent"}, {"\\%", "percent"}, {"\\degree", "degree"}};
  const auto found = kNames.find(token);
  return found == kNames.end() ? "" : std::string(found->second);
}

// 20^\circ C: the letter is of the unit.
void mark_scales(LatexTokens& tokens) {
  for (size_t i = 1; i < tokens.size(); ++i) {
    const bool is_scale = tokens[i].name == "C" || tokens[i].name == "F" || tokens[i].name == "K";
    if (tokens[i - 1].name == "\\degree" && is_scale) tokens[i].is_text = true;
  }
}

}  // namespace

std::string take_unit(LatexTokens& tokens) {
  mark_scales(tokens);
  std::string signs;
  for (const auto& token : tokens) {
    const auto name = sign_name(token.name);
    if (!name.empty() && signs.find(name) == std::string::npos) signs += name;
  }
  auto rest = tokens;
  std::erase_if(rest, [](const auto& token) { return !sign_name(token.name).empty(); });
  if (rest.empty()) return "";  // % alone
  tokens = std::move(rest);
  const auto begin = begin_of_unit(tokens);
  const auto text = begin ? UnitReader(tokens, *begin).read() : std::nullopt;
  if (!text) return signs;
  tokens.resize(*begin);
  return *text == signs ? signs : signs + *text;
}

}  // namespace kvc
