// The text of a template as tokens, with trim_blocks and lstrip_blocks as chat templates are read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvc::jinja {

struct Token {
  // data: text outside of tags; open, close: a tag's ends, of which `text` is the first two characters or the last two
  enum class Type { data, open, close, name, text, integer, real, symbol, end };
  Type type = Type::end;
  std::string text;
  int line = 1;  // from 1
  int64_t integer = 0;
  double real = 0;

  bool is(Type wanted, std::string_view wanted_text) const { return type == wanted && text == wanted_text; }
  bool is_symbol(std::string_view symbol) const { return is(Type::symbol, symbol); }
  bool is_name(std::string_view name) const { return is(Type::name, name); }
};

// The last one is an end. Throws Error "line N: ...". The template is UTF-8.
std::vector<Token> read_tokens(std::string_view source);

// The value of a text literal given without its quotes. Throws Error without a position.
std::string unescape(std::string_view literal);

}  // namespace kvc::jinja
