#include "jinja/lexer.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "kvc/check.h"
#include "text/characters.h"
#include "text/utf8.h"

namespace kvc::jinja {
namespace {

// Line feeds alone, and none at the end.
std::string with_line_feeds(std::string_view source) {
  std::string text;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text += source[i];
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      text += '\n';
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

bool is_blank(std::string_view text) { return strip(text).empty(); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(with_line_feeds(source)) {}

  std::vector<Token> read() {
    while (at_ < text_.size()) read_outside_();
    add_(Token::Type::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail_(const std::string& what) const { throw Error(concat("line ", line_, ": ", what)); }

  bool follows_(std::string_view wanted) const { return std::string_view(text_).substr(at_).starts_with(wanted); }

  void go_to_(size_t end) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    if (end > at_) at_line_start_ = text_[end - 1] == '\n';
    at_ = end;
  }

  void skip_space_() {
    size_t end = at_;
    while (end < text_.size()) {
      const auto point = next_code_point(text_, end);
      if (!is_space(point.value)) break;
      end += point.n_bytes;
    }
    go_to_(end);
  }

  void add_(Token::Type type, std::string text) {
    Token token;
    token.type = type, token.text = std::move(text), token.line = line_;
    tokens_.push_back(std::move(token));
  }

  // Text up to the tag at `end`, whose sign is '-', '+' or another character.
  void add_data_(size_t end, char sign, bool is_variable) {
    std::string_view data = std::string_view(text_).substr(at_, end - at_);
    if (sign == '-') {
      data = data.substr(0, strip_end(data).size());
    } else if (sign != '+' && !is_variable) {
      const auto line_begin = data.rfind('\n') + 1;  // 0 where there is none
      const bool begins_line = line_begin > 0 || at_line_start_;
      if (begins_line && is_blank(data.substr(line_begin))) data = data.substr(0, line_begin);
    }
    if (!data.empty()) add_(Token::Type::data, std::string(data));
    go_to_(end);
  }

  char at_or_nothing_(size_t at) const { return at < text_.size() ? text_[at] : '\0'; }

  void read_outside_() {
    size_t tag = at_;
    const auto begins_tag = [&] {
      return text_[tag] == '{' && tag + 1 < text_.size() &&
             std::string_view("{%#").find(text_[tag + 1]) != std::string_view::npos;
    };
    while (tag < text_.size() && !begins_tag()) ++tag;
    if (tag == text_.size()) {
      add_(Token::Type::data, text_.substr(at_));
      return go_to_(tag);
    }
    const char kind = text_[tag + 1], sign = at_or_nothing_(tag + 2);
    add_data_(tag, sign, kind == '{');
    const bool is_signed = sign == '-' || sign == '+';
    if (kind == '%' && read_raw_(tag + 2 + is_signed)) return;
    if (kind != '#') add_(Token::Type::open, std::string("{") + kind);
    go_to_(tag + 2 + is_signed);
    if (kind == '#') return skip_comment_();
    read_tag_(kind == '%' ? "%}" : "}}");
  }

  // After a tag's last two characters: drops blanks if a minus precedes them, or, for blocks and comments, a line feed.
  void end_tag_(size_t end, char sign, bool trims) {
    go_to_(end);
    if (sign == '-') return skip_space_();
    if (trims && sign != '+' && at_or_nothing_(at_) == '\n') go_to_(at_ + 1);
  }

  void skip_comment_() {
    const auto end = text_.find("#}", at_);
    if (end == std::string::npos) fail_("a comment has no end");
    end_tag_(end + 2, end > at_ ? text_[end - 1] : '\0', true);
  }

  // The position after `word` and its surrounding blanks, or nothing.
  std::optional<size_t> after_word_(size_t at, std::string_view word) const {
    const auto skip = [&] {
      while (at < text_.size()) {
        const auto point = next_code_point(text_, at);
        if (!is_space(point.value)) break;
        at += point.n_bytes;
      }
    };
    skip();
    if (!std::string_view(text_).substr(at).starts_with(word)) return std::nullopt;
    at += word.size();
    skip();
    return at;
  }

  // {% raw %}, whose name begins at `name`, with all up to its end; false where it is another tag.
  bool read_raw_(size_t name) {
    const auto closing = after_word_(name, "raw");
    if (!closing) return false;
    const bool strips = at_or_nothing_(*closing) == '-';
    const auto end = *closing + strips;
    if (!std::string_view(text_).substr(end).starts_with("%}")) return false;
    go_to_(end + 2);
    if (strips) skip_space_();
    for (auto tag = text_.find("{%", at_); tag != std::string::npos; tag = text_.find("{%", tag + 1)) {
      const char sign = at_or_nothing_(tag + 2);
      const auto after = after_word_(tag + 2 + (sign == '-' || sign == '+'), "endraw");
      if (!after) continue;
      const char end_sign = at_or_nothing_(*after);
      const auto mark = *after + (end_sign == '-' || end_sign == '+');
      if (!std::string_view(text_).substr(mark).starts_with("%}")) continue;
      add_data_(tag, sign, false);
      end_tag_(mark + 2, end_sign, true);
      return true;
    }
    fail_("{% raw %} has no end");
  }

  void read_tag_(std::string_view closing) {
    const bool is_block = closing == "%}";
    std::string open;  // brackets
    while (true) {
      if (at_ == text_.size()) fail_(concat("a tag has no end, expected ", closing));
      const char c = text_[at_];
      if (open.empty()) {
        const bool is_signed =
            (c == '-' || (c == '+' && is_block)) && std::string_view(text_).substr(at_ + 1).starts_with(closing);
        if (is_signed || follows_(closing)) {
          add_(Token::Type::close, std::string(closing));
          return end_tag_(at_ + is_signed + 2, is_signed ? c : '\0', is_block);
        }
      }
      if (is_space(next_code_point(text_, at_).value)) {
        skip_space_();
      } else if (is_digit(c)) {
        read_number_();
      } else if (c == '\'' || c == '"') {
        read_text_(c);
      } else if (c == '_' || is_word(next_code_point(text_, at_).value)) {
        read_name_();
      } else {
        read_symbol_(open);
      }
    }
  }

  void read_name_() {
    size_t end = at_;
    while (end < text_.size()) {
      const auto point = next_code_point(text_, end);
      if (!is_word(point.value)) break;
      end += point.n_bytes;
    }
    add_(Token::Type::name, text_.substr(at_, end - at_));
    go_to_(end);
  }

  void read_text_(char quote) {
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) fail_("a text has no closing quote");
    try {
      add_(Token::Type::text, unescape(std::string_view(text_).substr(at_ + 1, end - at_ - 1)));
    } catch (const Error& e) {
      fail_(e.what());
    }
    go_to_(end + 1);
  }

  // Digits, each two of which an underscore may part.
  size_t after_digits_(size_t at, std::string_view digits) const {
    const auto is_one = [&](size_t i) { return i < text_.size() && digits.find(text_[i]) != std::string_view::npos; };
    while (is_one(at) || (at_or_nothing_(at) == '_' && is_one(at + 1))) ++at;
    return at;
  }

  void read_number_() {
    constexpr std::string_view kDigits = "0123456789";
    auto end = after_digits_(at_, kDigits);
    const bool may_be_real = at_ == 0 || text_[at_ - 1] != '.';
    const auto after_whole = end;
    if (at_or_nothing_(end) == '.' && is_digit(at_or_nothing_(end + 1))) end = after_digits_(end + 1, kDigits);
    if (const char e = at_or_nothing_(end); e == 'e' || e == 'E') {
      const char sign = at_or_nothing_(end + 1);
      const auto digits = end + 1 + (sign == '-' || sign == '+');
      if (is_digit(at_or_nothing_(digits))) end = after_digits_(digits, kDigits);
    }
    if (end == after_whole || !may_be_real) return read_integer_();
    auto written = text_.substr(at_, end - at_);
    std::erase(written, '_');
    add_(Token::Type::real, written);
    if (std::from_chars(written.data(), written.data() + written.size(), tokens_.back().real).ec != std::errc()) {
      fail_(concat("the number ", written, " is too large or too small"));
    }
    go_to_(end);
  }

  void read_integer_() {
    int base = 10;
    size_t begin = at_, end = at_;
    const char mark = static_cast<char>(at_or_nothing_(at_ + 1) | 0x20);
    const auto based = [&](char wanted, int value, std::string_view digits) {
      if (text_[at_] != '0' || mark != wanted) return;
      const auto after = after_digits_(at_ + 2, digits);
      if (after == at_ + 2) return;
      base = value, begin = at_ + 2, end = after;
    };
    based('b', 2, "01"), based('o', 8, "01234567"), based('x', 16, "0123456789abcdefABCDEF");
    if (base == 10) end = after_digits_(at_, text_[at_] == '0' ? "0" : "0123456789");
    auto written = text_.substr(begin, end - begin);
    std::erase(written, '_');
    add_(Token::Type::integer, written);
    auto& value = tokens_.back().integer;
    if (std::from_chars(written.data(), written.data() + written.size(), value, base).ec != std::errc()) {
      fail_(concat("the integer ", written, " has more than 64 bits"));
    }
    go_to_(end);
  }

  void read_symbol_(std::string& open) {
    constexpr std::string_view kSymbols[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                             "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const auto* symbol = std::find_if(std::begin(kSymbols), std::end(kSymbols), [&](auto s) { return follows_(s); });
    if (symbol == std::end(kSymbols)) {
      fail_(concat("unexpected character ", in_quotes(text_.substr(at_, next_code_point(text_, at_).n_bytes))));
    }
    const char c = symbol->front();
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) fail_(concat("unexpected '", c, "'"));
      open.pop_back();
    }
    add_(Token::Type::symbol, std::string(*symbol));
    go_to_(at_ + symbol->size());
  }

  const std::string text_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int line_ = 1;
  bool at_line_start_ = true;  // a tag at this position would be the first non-blank text of its line
};

}  // namespace

std::vector<Token> read_tokens(std::string_view source) { return Lexer(source).read(); }

}  // namespace kvc::jinja
