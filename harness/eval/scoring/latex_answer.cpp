#include "scoring/latex_answer.h"

#include <algorithm>
#include <set>
#include <utility>

#include "scoring/latex_form.h"
#include "scoring/latex_tokens.h"
#include "scoring/latex_unit.h"
#include "scoring/unicode.h"
#include "text/utf8.h"

namespace kvc {
namespace {

constexpr size_t kGroup = 3;  // digits between separators of thousands

// Of each brace that opens a group, where the group ends; npos where it does not. Escaped braces are text.
std::vector<size_t> ends_of_groups(std::string_view text) {
  std::vector<size_t> ends(text.size(), std::string_view::npos), open;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '{') {
      open.push_back(i);
    } else if (text[i] == '}' && !open.empty()) {
      ends[open.back()] = i;
      open.pop_back();
    }
  }
  return ends;
}

// Separators of thousands, which go: 1{,}234, 1,\!234, 1 234, and where `commas` says so 1,234 out of brackets.
class Thousands {
 public:
  Thousands(const LatexTokens& tokens, bool commas) : tokens_(tokens), commas_(commas) {}

  LatexTokens joined() {
    while (at_ < tokens_.size()) {
      depth_ = std::max(0, depth_ + bracket_step(tokens_[at_]));
      if (is_digit(tokens_[at_])) {
        number();
      } else {
        if (tokens_[at_].name != "\\!") result_.push_back(tokens_[at_]);
        ++at_;
      }
    }
    return std::move(result_);
  }

 private:
  bool is(size_t at, std::string_view name) const { return at < tokens_.size() && tokens_[at].name == name; }
  bool is_tight(size_t at) const { return at < tokens_.size() && !tokens_[at].after_space; }

  size_t end_of_digits(size_t at) const {
    const size_t begin = at;
    while (at < tokens_.size() && is_digit(tokens_[at]) && (at == begin || !tokens_[at].after_space)) ++at;
    return at;
  }

  // Where the next group's digits begin; `at` where they do not.
  size_t after_separator(size_t at) const {
    if (is(at, "{") && is(at + 1, ",") && is(at + 2, "}")) return at + 3;
    if (is(at, ",") && is(at + 1, "\\!")) return at + 2;
    if (is(at, "\\!")) return at + 1;
    if (commas_ && depth_ == 0 && is(at, ",") && is_tight(at) && is_tight(at + 1)) return at + 1;
    return at;
  }

  void number() {
    const size_t begin = at_;
    size_t end = end_of_digits(begin);
    bool is_grouped = end - begin <= kGroup && tokens_[begin].name != "0";
    while (is_grouped) {
      const size_t next = after_separator(end);
      if (next == tokens_.size() || !is_digit(tokens_[next])) break;
      const size_t end_of_next = end_of_digits(next);
      is_grouped = end_of_next - next == kGroup;  // 1,234,5 is a list
      end = end_of_next;
    }
    for (size_t i = begin; i < end; ++i) {
      if (tokens_[i].name == "\\!" || (is_grouped && !is_digit(tokens_[i]))) continue;
      result_.push_back(tokens_[i]);
      if (is_grouped && i > begin) result_.back().after_space = false;
    }
    at_ = end;
    if (is(at_, ".") && is_tight(at_)) decimals();
  }

  void decimals() {
    result_.push_back(tokens_[at_++]);
    const size_t end = is_tight(at_) ? end_of_digits(at_) : at_;
    result_.insert(result_.end(), tokens_.begin() + static_cast<long>(at_), tokens_.begin() + static_cast<long>(end));
    at_ = end;
  }

  const LatexTokens& tokens_;
  bool commas_;
  size_t at_ = 0;
  int depth_ = 0;
  LatexTokens result_;
};

// 1.5e-4 is 1.5 \cdot 10^{-4}
LatexTokens with_powers(const LatexTokens& tokens) {
  LatexTokens result;
  const auto is_tight = [&](size_t at) { return at < tokens.size() && !tokens[at].after_space; };
  for (size_t at = 0; at < tokens.size(); ++at) {
    result.push_back(tokens[at]);
    const bool is_e = (tokens[at].name == "e" || tokens[at].name == "E") && is_tight(at);
    if (!is_e || at == 0 || !is_digit(tokens[at - 1])) continue;
    const bool is_signed = is_tight(at + 1) && (tokens[at + 1].name == "-" || tokens[at + 1].name == "+");
    size_t end = at + 1 + is_signed;
    while (is_tight(end) && is_digit(tokens[end])) ++end;
    if (end == at + 1 + is_signed) continue;
    result.pop_back();
    for (const char* name : {"\\cdot", "1", "0", "^", "{"}) result.push_back({name});
    result.insert(result.end(), tokens.begin() + static_cast<long>(at) + 1, tokens.begin() + static_cast<long>(end));
    result.push_back({"}"});
    at = end - 1;
  }
  return result;
}

// Words by one case, where those of the other answer are text or the word is written as a word: Even, but not AB.
LatexTokens folded(LatexTokens tokens, bool other_is_text) {
  for (size_t begin = 0; begin < tokens.size();) {
    const size_t end = is_letter(tokens[begin]) ? end_of_word(tokens, begin) : begin + 1;
    const auto rest = letters_of(tokens, std::min(begin + 1, end), end);
    const bool is_word = end - begin > 2 && rest == lower(rest);
    if (end - begin > 1 && (other_is_text || tokens[begin].is_text || is_word)) {
      for (size_t i = begin; i < end; ++i) tokens[i].name = lower(tokens[i].name);
    }
    begin = end;
  }
  return tokens;
}

bool has_text(const LatexTokens& tokens) {
  return std::any_of(tokens.begin(), tokens.end(), [](const auto& token) { return token.is_text; });
}

bool is_same_form(const LatexTokens& a, const LatexTokens& b) {
  const auto of_a = latex_form(a), of_b = latex_form(b);
  if (!of_a || !of_b) return false;
  if (*of_a == *of_b) return true;
  if (lower(*of_a) != lower(*of_b)) return false;
  return latex_form(folded(a, has_text(b))) == latex_form(folded(b, has_text(a)));
}

// One answer, or one of a list.
struct LatexItem {
  LatexTokens name;      // of "x = 5" x
  std::string relation;  // and what is between them
  LatexTokens value;
  LatexTokens with_unit;  // empty where there is no unit
  std::string unit;
};

bool is_relation(const LatexToken& token) {
  static const std::set<std::string_view> kNames = {"=",    "<",    ">",        "\\le",    "\\ge",     "\\ne",
                                                    "\\in", "\\to", "\\approx", "\\equiv", "\\subset", "\\cong"};
  return kNames.contains(token.name);
}

// What a name is made of, scripts and brackets excepted.
bool is_name_token(const LatexToken& token) {
  static const std::set<std::string_view> kOthers = {
      "\\frac", "\\sqrt", "\\surd", "\\binom",  "\\cdot", "\\sin", "\\cos", "\\tan", "\\log",  "\\ln",   "\\infty",
      "\\pi",   "\\cup",  "\\cap",  "\\degree", "\\pm",   "\\mp",  "\\int", "\\sum", "\\over", "\\dots", "\\setminus"};
  if (is_letter(token) || token.name == "{" || token.name == "}" || token.name == "'") return true;
  const bool is_word = token.name.size() > 2 && token.name[0] == '\\' && token.name.find(':') == std::string::npos;
  return is_word && !kOthers.contains(token.name);
}

// Where the argument of a script ends that begins at `at`.
size_t end_of_argument(const LatexTokens& tokens, size_t at) {
  if (at < tokens.size() && tokens[at].name == "{") {
    while (at < tokens.size() && tokens[at].name != "}") ++at;
    return std::min(at + 1, tokens.size());
  }
  at = std::min(at + 1, tokens.size());
  while (at < tokens.size() && is_digit(tokens[at]) && !tokens[at].after_space) ++at;
  return at;
}

// f(x), a_1, f^{-1}(x), (x, y), \angle ABC, Area: letters and no number but in a subscript or in brackets after a
// letter.
bool is_name(const LatexTokens& tokens) {
  const bool is_tuple = tokens.size() > 2 && tokens[0].name == "(" && tokens.back().name == ")";
  for (size_t at = is_tuple; at + is_tuple < tokens.size();) {
    const auto& name = tokens[at].name;
    const bool is_power = name == "^";
    if (is_power || name == "_") {
      const size_t begin = at + 1;
      at = end_of_argument(tokens, begin);
      const auto power = letters_of(tokens, begin, at);
      const bool is_index = power == "{-1}" || power == "-1" || power == "{\\prime}" || power == "\\prime";
      if (is_power && !is_index) return false;
    } else if (name == "(" && at > 0 && !is_tuple) {
      return tokens.back().name == ")";
    } else if (is_name_token(tokens[at]) || (is_tuple && name == ",")) {
      ++at;
    } else {
      return false;
    }
  }
  return !tokens.empty();
}

// Whether the letter is a choice's: A, (A), A).
bool is_choice(const LatexTokens& tokens) {
  const bool is_open = !tokens.empty() && tokens[0].name == "(";
  if (tokens.size() != (is_open ? 3 : 2) || tokens.back().name != ")") return false;
  const auto& letter = tokens[is_open ? 1 : 0].name;
  return letter.size() == 1 && letter[0] >= 'A' && letter[0] <= 'Z';
}

LatexItem item_of(LatexTokens tokens) {
  LatexItem item;
  std::vector<size_t> relations;
  for (size_t i = 0, depth = 0; i < tokens.size(); ++i) {
    const int step = bracket_step(tokens[i]) + (tokens[i].name == "{") - (tokens[i].name == "}");
    if (step > 0 || depth > 0) depth += static_cast<size_t>(step);
    if (depth == 0 && is_relation(tokens[i])) relations.push_back(i);
  }
  const auto at = relations.size() == 1 ? static_cast<long>(relations[0]) : 0;
  if (at > 0 && (tokens[relations[0]].name == "=" || tokens[relations[0]].name == "\\in")) {
    LatexTokens left(tokens.begin(), tokens.begin() + at), right(tokens.begin() + at + 1, tokens.end());
    const bool is_turned = tokens[relations[0]].name == "=" && !is_name(left) && is_name(right);
    if (is_turned) left.swap(right);
    if (is_name(left) && !right.empty()) {
      item.relation = tokens[relations[0]].name;
      item.name = std::move(left);
      tokens = std::move(right);
    }
  }
  auto whole = tokens;
  item.unit = take_unit(tokens);
  if (!item.unit.empty()) item.with_unit = std::move(whole);
  if (is_choice(tokens)) tokens = {LatexToken(tokens[tokens.size() - 2])};
  item.value = std::move(tokens);
  return item;
}

struct LatexList {
  std::vector<LatexItem> items;
  std::vector<std::string> separators;  // after each item but the last
};

// "and" or "or" as a word of its own; "" for none.
std::string conjunction_at(const LatexTokens& tokens, size_t begin, size_t end) {
  const auto word = letters_of(tokens, begin, end);
  if (word != "and" && word != "or") return "";
  const bool is_apart =
      tokens[begin].is_text || (tokens[begin].after_space && end < tokens.size() && tokens[end].after_space);
  return is_apart ? word : "";
}

LatexList list_of(const LatexTokens& tokens) {
  LatexList list;
  LatexTokens item;
  int depth = 0;
  const auto end_item = [&](const std::string& separator) {
    if (item.empty() && !list.separators.empty()) {  // ", and"
      list.separators.back() = separator;
      return;
    }
    list.items.push_back(item_of(std::exchange(item, {})));
    list.separators.push_back(separator);
  };
  for (size_t at = 0; at < tokens.size();) {
    const auto& token = tokens[at];
    const size_t end = is_letter(token) ? end_of_word(tokens, at) : at + 1;
    depth = std::max(0, depth + bracket_step(token) + (token.name == "{") - (token.name == "}"));
    const auto separator = depth > 0 ? "" : token.name == "," ? "," : conjunction_at(tokens, at, end);
    if (!separator.empty()) {
      end_item(separator);
    } else {
      item.insert(item.end(), tokens.begin() + static_cast<long>(at), tokens.begin() + static_cast<long>(end));
    }
    at = end;
  }
  list.items.push_back(item_of(std::move(item)));
  return list;
}

bool is_same_item(const LatexItem& a, const LatexItem& b) {
  const bool both_named = !a.name.empty() && !b.name.empty();
  if (both_named && (a.relation != b.relation || !is_same_form(a.name, b.name))) return false;
  if (a.unit == b.unit) return is_same_form(a.value, b.value);
  const auto& of_a = a.unit.empty() ? a.value : a.with_unit;
  const auto& of_b = b.unit.empty() ? b.value : b.with_unit;
  if (is_same_form(of_a, of_b)) return true;  // 5 \text{ m} and 5 m
  return (a.unit.empty() || b.unit.empty()) && is_same_form(a.value, b.value);
}

bool is_same_list(const LatexList& a, const LatexList& b) {
  if (a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!is_same_item(a.items[i], b.items[i])) return false;
    if (i + 1 == a.items.size()) break;
    const auto &of_a = a.separators[i], of_b = b.separators[i];
    if (of_a != of_b && of_a != "," && of_b != ",") return false;
  }
  return a.items.size() > 1 || (!a.items[0].value.empty() && !b.items[0].value.empty());
}

// Without braces around all.
LatexTokens without_braces(LatexTokens tokens) {
  size_t n = 0;  // pairs that enclose all
  std::vector<size_t> open;
  std::vector<size_t> ends(tokens.size(), 0);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].name == "{") open.push_back(i);
    if (tokens[i].name != "}" || open.empty()) continue;
    ends[open.back()] = i;
    open.pop_back();
  }
  while (2 * n + 1 < tokens.size() && tokens[n].name == "{" && ends[n] == tokens.size() - 1 - n) ++n;
  return {tokens.begin() + static_cast<long>(n), tokens.end() - static_cast<long>(n)};
}

bool has_comma(const LatexTokens& tokens) {
  return std::any_of(tokens.begin(), tokens.end(), [](const auto& token) { return token.name == ","; });
}

std::string without_whitespace(std::string_view text) {
  std::string result;
  const auto points = to_code_points_replacing(text);
  for (const auto& word : split_at_space(points)) result += to_utf8(word);
  return result;
}

}  // namespace

std::optional<std::string> boxed(std::string_view text, bool last) {
  std::optional<std::string> found;
  const auto ends = ends_of_groups(text);
  for (size_t at = 0; at < text.size(); ++at) {
    const auto rest = text.substr(at);
    const size_t length = rest.starts_with("\\boxed") ? 6 : rest.starts_with("\\fbox") ? 5 : 0;
    if (length == 0) continue;
    const size_t open = text.find_first_not_of(" \t\n", at + length);
    if (open == std::string_view::npos || text[open] != '{' || ends[open] == std::string_view::npos) continue;
    found = text.substr(open + 1, ends[open] - open - 1);
    if (!last) return found;
    at = ends[open];
  }
  return found;
}

bool is_same_latex(std::string_view answer, std::string_view gold) {
  if (const auto text = strip(answer); text == strip(gold)) return !text.empty();
  const auto tokens = without_braces(latex_tokens(answer)), expected = without_braces(latex_tokens(gold));
  if (!latex_form(tokens) || !latex_form(expected)) return without_whitespace(answer) == without_whitespace(gold);
  const auto read = [](const LatexTokens& of, bool commas) {
    return list_of(with_powers(Thousands(of, commas).joined()));
  };
  if (is_same_list(read(tokens, false), read(expected, false))) return true;
  return has_comma(tokens) + has_comma(expected) > 0 && is_same_list(read(tokens, true), read(expected, true));
}

}  // namespace kvc
