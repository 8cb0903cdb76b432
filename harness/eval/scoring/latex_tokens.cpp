#include "scoring/latex_tokens.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <map>
#include <set>

#include "scoring/unicode.h"
#include "text/utf8.h"

namespace kvc {
namespace {

using Names = std::map<std::string_view, std::string_view>;
using NameSet = std::set<std::string_view>;

// Control words without their backslash, by the one spelling that is kept.
const Names& same_commands() {
  static const Names kNames = {
      {"dfrac", "\\frac"},
      {"tfrac", "\\frac"},
      {"cfrac", "\\frac"},
      {"nicefrac", "\\frac"},
      {"sfrac", "\\frac"},
      {"dbinom", "\\binom"},
      {"tbinom", "\\binom"},
      {"leq", "\\le"},
      {"leqslant", "\\le"},
      {"geq", "\\ge"},
      {"geqslant", "\\ge"},
      {"neq", "\\ne"},
      {"lt", "<"},
      {"gt", ">"},
      {"times", "\\cdot"},
      {"ast", "\\cdot"},
      {"div", "/"},
      {"slash", "/"},
      {"rightarrow", "\\to"},
      {"longrightarrow", "\\to"},
      {"land", "\\wedge"},
      {"lor", "\\vee"},
      {"lnot", "\\neg"},
      {"varnothing", "\\emptyset"},
      {"bigcup", "\\cup"},
      {"bigcap", "\\cap"},
      {"backslash", "\\setminus"},
      {"smallsetminus", "\\setminus"},
      {"mid", "|"},
      {"vert", "|"},
      {"lvert", "|"},
      {"rvert", "|"},
      {"lVert", "\\|"},
      {"rVert", "\\|"},
      {"Vert", "\\|"},
      {"lbrace", "\\{"},
      {"rbrace", "\\}"},
      {"lbrack", "["},
      {"rbrack", "]"},
      {"lparen", "("},
      {"rparen", ")"},
      {"ldots", "\\dots"},
      {"cdots", "\\dots"},
      {"dotsc", "\\dots"},
      {"dotsb", "\\dots"},
      {"textdegree", "\\degree"},
      {"textdollar", "\\$"},
      {"dollar", "\\$"},
      {"percent", "\\%"},
      {"textpercent", "\\%"},
      {"colon", ":"},
      {"widehat", "\\hat"},
      {"widetilde", "\\tilde"},
      {"overrightarrow", "\\vec"},
      {"Bbb", "\\mathbb"},
      {"pounds", "\\pounds"},
      {"textsterling", "\\pounds"},
      {"texteuro", "\\euro"},
      {"iff", "\\Leftrightarrow"},
      {"implies", "\\Rightarrow"},
  };
  return kNames;
}

// Words that people write without a backslash.
const Names& plain_commands() {
  static const Names kNames = {
      {"pi", "\\pi"},     {"theta", "\\theta"},    {"alpha", "\\alpha"}, {"beta", "\\beta"}, {"sqrt", "\\sqrt"},
      {"inf", "\\infty"}, {"infinity", "\\infty"}, {"infty", "\\infty"}, {"sin", "\\sin"},   {"cos", "\\cos"},
      {"tan", "\\tan"},   {"log", "\\log"},        {"ln", "\\ln"},       {"cup", "\\cup"},
  };
  return kNames;
}

// Layout alone: nothing is left of them; of the second, a space.
const NameSet kLayout = {
    "left",        "right",  "middle",   "big",   "Big",   "bigg",  "Bigg",  "bigl",         "bigr",
    "Bigl",        "Bigr",   "biggl",    "biggr", "Biggl", "Biggr", "bigm",  "displaystyle", "textstyle",
    "scriptstyle", "limits", "nolimits", "rm",    "bf",    "it",    "hline", "centering",    "scriptscriptstyle"};
const NameSet kBlanks = {"quad", "qquad", "enspace", "thinspace", "medspace", "thickspace", "space", "newline"};
const NameSet kTextGroups = {"text",   "mbox",   "hbox",   "textrm",       "textbf", "textit",    "textnormal",
                             "textsf", "texttt", "textsc", "textup",       "mathrm", "mathbf",    "mathit",
                             "mathsf", "mathtt", "emph",   "operatorname", "unit",   "mathnormal"};
const NameSet kMathGroups = {"boxed", "fbox", "boldsymbol", "bm", "pmb", "ensuremath", "displaylimits"};
const NameSet kSkippedGroups = {"hspace", "vspace", "color", "textcolor", "phantom", "hphantom", "label", "tag"};
const NameSet kOtherCommands = {"frac",  "sqrt",  "binom", "pi",    "infty", "cdot", "pm",       "mp",
                                "le",    "ge",    "ne",    "cup",   "cap",   "in",   "circ",     "degree",
                                "theta", "alpha", "beta",  "gamma", "begin", "end",  "overline", "sin",
                                "cos",   "tan",   "log",   "ln",    "mathbb"};
const NameSet kMatrices = {"matrix", "pmatrix", "bmatrix", "Bmatrix", "smallmatrix", "array"};
const NameSet kAligned = {"align",  "align*",  "aligned",  "equation", "equation*",
                          "gather", "gather*", "gathered", "split"};
const NameSet kTakesArgument = {"^", "_", "\\frac", "\\sqrt", "\\binom", "\\overline", "\\bar", "\\vec", "\\hat"};

bool is_command(std::string_view word) {
  return same_commands().contains(word) || kLayout.contains(word) || kBlanks.contains(word) ||
         kTextGroups.contains(word) || kMathGroups.contains(word) || kOtherCommands.contains(word);
}

// Characters beyond ASCII, in TeX.
const std::map<char32_t, const char*>& character_names() {
  static const std::map<char32_t, const char*> kNames = {
      {U'−', "-"},
      {U'–', "-"},
      {U'‐', "-"},
      {U'‑', "-"},
      {U'×', "\\cdot "},
      {U'·', "\\cdot "},
      {U'⋅', "\\cdot "},
      {U'∗', "\\cdot "},
      {U'÷', "/"},
      {U'⁄', "/"},
      {U'∕', "/"},
      {U'±', "\\pm "},
      {U'∓', "\\mp "},
      {U'≤', "\\le "},
      {U'≥', "\\ge "},
      {U'⩽', "\\le "},
      {U'⩾', "\\ge "},
      {U'≠', "\\ne "},
      {U'≈', "\\approx "},
      {U'≡', "\\equiv "},
      {U'∞', "\\infty "},
      {U'∪', "\\cup "},
      {U'∩', "\\cap "},
      {U'∈', "\\in "},
      {U'∉', "\\notin "},
      {U'∅', "\\emptyset "},
      {U'∖', "\\setminus "},
      {U'⊂', "\\subset "},
      {U'⊆', "\\subseteq "},
      {U'→', "\\to "},
      {U'∠', "\\angle "},
      {U'°', "\\degree "},
      {U'º', "\\degree "},
      {U'′', "'"},
      {U'’', "'"},
      {U'…', "\\dots "},
      {U'⟨', "\\langle "},
      {U'⟩', "\\rangle "},
      {U'ℝ', "\\mathbb{R}"},
      {U'ℤ', "\\mathbb{Z}"},
      {U'ℕ', "\\mathbb{N}"},
      {U'ℚ', "\\mathbb{Q}"},
      {U'ℂ', "\\mathbb{C}"},
      {U'√', "\\surd "},
      {U'π', "\\pi "},
      {U'θ', "\\theta "},
      {U'α', "\\alpha "},
      {U'β', "\\beta "},
      {U'γ', "\\gamma "},
      {U'δ', "\\delta "},
      {U'ε', "\\epsilon "},
      {U'λ', "\\lambda "},
      {U'μ', "\\mu "},
      {U'ρ', "\\rho "},
      {U'σ', "\\sigma "},
      {U'τ', "\\tau "},
      {U'φ', "\\phi "},
      {U'ω', "\\omega "},
      {U'Δ', "\\Delta "},
      {U'Ω', "\\Omega "},
      {U'½', "\\frac{1}{2}"},
      {U'⅓', "\\frac{1}{3}"},
      {U'⅔', "\\frac{2}{3}"},
      {U'¼', "\\frac{1}{4}"},
      {U'¾', "\\frac{3}{4}"},
      {U'⅕', "\\frac{1}{5}"},
      {U'⅖', "\\frac{2}{5}"},
      {U'⅗', "\\frac{3}{5}"},
      {U'⅘', "\\frac{4}{5}"},
      {U'⅙', "\\frac{1}{6}"},
      {U'⅚', "\\frac{5}{6}"},
      {U'⅛', "\\frac{1}{8}"},
      {U'⅜', "\\frac{3}{8}"},
      {U'⅝', "\\frac{5}{8}"},
      {U'⅞', "\\frac{7}{8}"},
      {U'€', "\\euro "},
      {U'£', "\\pounds "},
      {U'¥', "\\yen "},
      {U'¢', "\\cent "},
  };
  return kNames;
}

constexpr std::u32string_view kRaised = U"⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ", kLowered = U"₀₁₂₃₄₅₆₇₈₉₋₊ₙ", kOnLine = U"0123456789-+n";

// 0x3000 and what Python's str.strip() takes off is whitespace.
bool is_blank(char32_t c) {
  return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x80 && u_isUWhiteSpace(static_cast<UChar32>(c)));
}

class LatexReader {
 public:
  explicit LatexReader(std::string_view text) : text_(text) {}

  LatexTokens read() {
    while (at_ < text_.size()) step();
    return std::move(tokens_);
  }

 private:
  struct Group {
    bool is_text = false;
    bool is_dropped = false;  // its braces are no tokens
  };

  void emit(std::string name) {
    tokens_.push_back({std::move(name), space_, !groups_.empty() && groups_.back().is_text});
    if (ended_text_ && is_letter(tokens_.back())) tokens_.back().after_space = true;  // \text{a}\text{b} are two words
    space_ = ended_text_ = false;
  }

  void step() {
    const auto [c, n_bytes, is_valid] = next_or_byte(text_, at_);
    if (is_blank(c)) {
      at_ += n_bytes;
      space_ = true;
    } else if (c == '\\') {
      control_sequence();
    } else if (c == '{') {
      ++at_;
      open({!groups_.empty() && groups_.back().is_text, false});
    } else if (c == '}') {
      ++at_;
      close();
    } else if (c < 0x80) {
      ++at_;
      character(static_cast<char>(c));
    } else {
      other_character(c, n_bytes);
    }
  }

  void character(char c) {
    if (c == '~') {
      space_ = true;
    } else if (c == '%') {
      emit("\\%");
    } else if (c == '*') {
      emit("\\cdot");
    } else {
      emit(std::string(1, c));
    }
  }

  void other_character(char32_t c, size_t n_bytes) {
    const auto known = character_names().find(c);
    if (kRaised.find(c) != std::u32string_view::npos) return script("^", kRaised);
    if (kLowered.find(c) != std::u32string_view::npos) return script("_", kLowered);
    const auto bytes = text_.substr(at_, n_bytes);
    at_ += n_bytes;
    if (known != character_names().end()) {
      put(known->second);
    } else if (is_decimal_digit(c)) {
      emit(std::string(1, static_cast<char>('0' + u_charDigitValue(static_cast<UChar32>(c)))));
    } else if (c > 0xFF00 && c < 0xFF5F) {
      put(std::string(1, static_cast<char>(c - 0xFEE0)));  // full-width ASCII
    } else {
      emit(std::string(bytes));
    }
  }

  void script(const char* name, std::u32string_view of) {
    emit(name);
    emit("{");
    for (; at_ < text_.size();) {
      const auto [c, n_bytes, is_valid] = next_or_byte(text_, at_);
      const auto which = of.find(c);
      if (which == std::u32string_view::npos) break;
      emit(std::string(1, static_cast<char>(kOnLine[which])));
      at_ += n_bytes;
    }
    emit("}");
  }

  void put(std::string_view tex) {
    for (auto& token : LatexReader(tex).read()) emit(std::move(token.name));
  }

  void open(Group group) {
    if (!group.is_dropped) emit("{");
    groups_.push_back(group);
  }

  void close() {
    const auto group = groups_.empty() ? Group{} : groups_.back();
    if (!groups_.empty()) groups_.pop_back();
    if (!group.is_dropped) return emit("}");
    ended_text_ = group.is_text;
  }

  std::string_view word() {
    const size_t begin = at_;
    while (at_ < text_.size() && std::isalpha(static_cast<unsigned char>(text_[at_]))) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  void control_sequence() {
    ++at_;
    if (at_ == text_.size()) return emit("\\");
    const auto name = word();
    if (!name.empty()) return command(name);
    const size_t n_bytes = next_or_byte(text_, at_).n_bytes;
    const auto symbol = text_.substr(at_, n_bytes);
    at_ += n_bytes;
    if (symbol == "\\") return line_end();
    if (symbol == "!") return emit("\\!");
    if (std::string_view(" ,;:>\n\t/").find(symbol) != std::string_view::npos) {
      space_ = true;
    } else if (std::string_view("()[]").find(symbol) == std::string_view::npos) {
      emit(symbol == "#" || symbol == "&" || symbol == "_" ? std::string(symbol) : "\\" + std::string(symbol));
    }
  }

  void line_end() {
    if (!environments_.empty()) {
      emit("\\\\");
      const size_t end = text_.substr(at_).starts_with('[') ? text_.find(']', at_) : std::string_view::npos;
      const bool is_length = end != std::string_view::npos && end - at_ < 12 &&
                             text_.find_first_of("pecm", at_) < end && text_.find(',', at_) > end;
      if (is_length) at_ = end + 1;  // \\[2pt]
      return;
    }
    const size_t begin = at_;
    const auto name = word();
    if (is_command(name)) return command(name);
    at_ = begin;
    space_ = true;
  }

  void command(std::string_view name) {
    if (name == "begin" || name == "end") return environment(name == "begin");
    if (kLayout.contains(name)) {
      if ((name == "left" || name == "right") && text_.substr(at_).starts_with('.')) ++at_;  // no bracket
    } else if (kBlanks.contains(name)) {
      space_ = true;
    } else if (kTextGroups.contains(name)) {
      group_of({true, true});
    } else if (kMathGroups.contains(name)) {
      group_of({!groups_.empty() && groups_.back().is_text, true});
    } else if (kSkippedGroups.contains(name)) {
      skip_group();
    } else {
      const auto same = same_commands().find(name);
      emit(same == same_commands().end() ? "\\" + std::string(name) : std::string(same->second));
    }
  }

  // The brace that follows opens the group; its braces stay where they are an argument's.
  void group_of(Group group) {
    const size_t open_at = text_.find_first_not_of(" \t\n", at_);
    if (open_at == std::string_view::npos || text_[open_at] != '{') return;
    at_ = open_at + 1;
    if (!tokens_.empty() && kTakesArgument.contains(tokens_.back().name)) group.is_dropped = false;
    open(group);
  }

  std::string_view skip_group() {
    const size_t begin = text_.find_first_not_of(" \t\n", at_);
    if (begin == std::string_view::npos || text_[begin] != '{') return {};
    const size_t end = text_.find_first_of("{}", begin + 1);
    if (end == std::string_view::npos || text_[end] != '}') return {};
    at_ = end + 1;
    return text_.substr(begin + 1, end - begin - 1);
  }

  // Brackets around an array are a matrix's own.
  void environment(bool begins) {
    const auto name = skip_group();
    if (kAligned.contains(name)) return;
    const auto kept = std::string(kMatrices.contains(name) ? "matrix" : name);
    if (begins) {
      if (name == "array") skip_group();  // its columns
      const bool is_bracketed = (name == "array" || name == "matrix") && !tokens_.empty() &&
                                (tokens_.back().name == "(" || tokens_.back().name == "[");
      environments_.push_back(is_bracketed);
      if (is_bracketed) tokens_.pop_back();
      return emit("\\begin:" + kept);
    }
    while (!tokens_.empty() && tokens_.back().name == "\\\\") tokens_.pop_back();
    emit("\\end:" + kept);
    const bool is_bracketed = !environments_.empty() && environments_.back();
    if (!environments_.empty()) environments_.pop_back();
    if (is_bracketed) skip_bracket();
  }

  void skip_bracket() {
    size_t at = text_.find_first_not_of(" \t\n", at_);
    if (at < text_.size() && text_.substr(at).starts_with("\\right")) at += std::string_view("\\right").size();
    if (at < text_.size() && (text_[at] == ')' || text_[at] == ']')) at_ = at + 1;
  }

  std::string_view text_;
  size_t at_ = 0;
  LatexTokens tokens_;
  std::vector<Group> groups_;
  std::vector<bool> environments_;  // that are open: whether brackets are around them
  bool space_ = false, ended_text_ = false;
};

bool is_named(const LatexTokens& tokens, size_t at, std::string_view name) {
  return at < tokens.size() && tokens[at].name == name;
}

// $ of formulas pair; one that pairs with no other is a dollar's.
void pair_dollars(LatexTokens& tokens) {
  const auto is_sign = [](const LatexToken& token) { return token.name == "$"; };
  if (std::count_if(tokens.begin(), tokens.end(), is_sign) % 2 == 1) {
    std::find_if(tokens.begin(), tokens.end(), is_sign)->name = "\\$";
  }
  std::erase_if(tokens, is_sign);
}

struct Spelled {
  std::string name;
  size_t n_tokens = 1;
};

bool is_glued(const LatexTokens& tokens, size_t at, std::string_view name) {
  return is_named(tokens, at, name) && !tokens[at].after_space;
}

// What is written as several tokens and is one.
Spelled spelled(const LatexTokens& tokens, size_t at) {
  const auto& name = tokens[at].name;
  const bool equals = is_glued(tokens, at + 1, "=");
  if (name == "<" && equals) return {"\\le", 2};
  if (name == ">" && equals) return {"\\ge", 2};
  if (name == "!" && equals) return {"\\ne", 2};
  if (name == "-" && is_glued(tokens, at + 1, ">")) return {"\\to", 2};
  if (name == "." && is_glued(tokens, at + 1, ".") && is_glued(tokens, at + 2, ".")) return {"\\dots", 3};
  if (name == "^" && is_named(tokens, at + 1, "\\degree")) return {"\\degree", 2};
  if (name == "^" && is_named(tokens, at + 1, "\\circ")) return {"\\degree", 2};
  const bool is_braced = name == "^" && is_named(tokens, at + 1, "{") && is_named(tokens, at + 3, "}");
  if (is_braced && (tokens[at + 2].name == "\\circ" || tokens[at + 2].name == "\\degree")) return {"\\degree", 4};
  if (name == "\\cdot" && is_glued(tokens, at + 1, "\\cdot")) return {"^", 2};  // x**2
  const bool is_between = name == "U" && at > 0 && at + 1 < tokens.size() && bracket_step(tokens[at - 1]) < 0;
  if (is_between && bracket_step(tokens[at + 1]) > 0) return {"\\cup", 1};
  return {name, 1};
}

// A full stop after a letter is an abbreviation's or a sentence's, one at the end a sentence's.
bool is_full_stop(const LatexTokens& tokens, size_t at) {
  if (tokens[at].name != ".") return false;
  const bool is_last = at + 1 == tokens.size();
  return is_last || (at > 0 && is_letter(tokens[at - 1]) && !is_digit(tokens[at + 1]));
}

LatexTokens in_one_spelling(const LatexTokens& tokens) {
  LatexTokens result;
  for (size_t at = 0; at < tokens.size();) {
    auto [name, n] = spelled(tokens, at);
    const size_t end = is_letter(tokens[at]) ? end_of_word(tokens, at) : at + n;
    const auto plain =
        is_letter(tokens[at]) ? plain_commands().find(letters_of(tokens, at, end)) : plain_commands().end();
    if (plain != plain_commands().end()) {
      result.push_back({std::string(plain->second), tokens[at].after_space, false});
    } else if (is_letter(tokens[at]) && name == tokens[at].name) {
      result.insert(result.end(), tokens.begin() + static_cast<long>(at), tokens.begin() + static_cast<long>(end));
    } else if (!is_full_stop(tokens, at) || n > 1) {
      result.push_back({std::move(name), tokens[at].after_space, tokens[at].is_text});
    }
    at = end;
  }
  return result;
}

}  // namespace

bool is_letter(const LatexToken& token) {
  if (token.name.size() == 1) return std::isalpha(static_cast<unsigned char>(token.name[0]));
  if (token.name.empty() || token.name[0] == '\\') return false;
  const auto c = next_or_byte(token.name, 0);
  return c.is_valid && c.n_bytes == token.name.size() && u_isalpha(static_cast<UChar32>(c.value));
}

bool is_digit(const LatexToken& token) {
  return token.name.size() == 1 && std::isdigit(static_cast<unsigned char>(token.name[0]));
}

int bracket_step(const LatexToken& token) {
  static const NameSet kOpen = {"(", "[", "\\{", "\\langle", "\\lfloor", "\\lceil"};
  static const NameSet kClose = {")", "]", "\\}", "\\rangle", "\\rfloor", "\\rceil"};
  if (kOpen.contains(token.name) || token.name.starts_with("\\begin:")) return 1;
  return kClose.contains(token.name) || token.name.starts_with("\\end:") ? -1 : 0;
}

size_t end_of_word(const LatexTokens& tokens, size_t at) {
  size_t end = at + 1;
  while (end < tokens.size() && is_letter(tokens[end]) && !tokens[end].after_space &&
         tokens[end].is_text == tokens[at].is_text) {
    ++end;
  }
  return end;
}

std::string letters_of(const LatexTokens& tokens, size_t begin, size_t end) {
  std::string word;
  for (size_t i = begin; i < end; ++i) word += tokens[i].name;
  return word;
}

LatexTokens latex_tokens(std::string_view text) {
  auto tokens = LatexReader(text).read();
  pair_dollars(tokens);
  return in_one_spelling(tokens);
}

}  // namespace kvc
