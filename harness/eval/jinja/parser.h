// Tokens as a tree of nodes: the grammar of Jinja's expressions and statements.
#pragma once

#include <string_view>

#include "jinja/lexer.h"
#include "jinja/node.h"

namespace kvc::jinja {

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(read_tokens(source)) {}

  // The whole template. Throws Error "line N: ..."; what Jinja knows and is not supported is named.
  Nodes read();

 private:
  // parser.cpp: statements
  Nodes read_until_(const std::vector<std::string>& ends);
  NodePtr read_statement_();
  NodePtr read_for_();
  NodePtr read_if_();
  NodePtr read_set_();
  NodePtr read_macro_();
  NodePtr read_call_block_();
  NodePtr read_filter_block_();
  NodePtr read_with_();
  void read_parameters_(Node& macro);
  Nodes read_body_(const std::vector<std::string>& ends);
  NodePtr read_target_(bool may_be_member);
  void close_block_();

  // parse_expression.cpp
  NodePtr read_tuple_(bool with_conditional = true, bool in_parentheses = false);
  NodePtr read_expression_() { return read_conditional_(); }
  NodePtr read_conditional_();
  NodePtr read_or_();
  NodePtr read_and_();
  NodePtr read_not_();
  NodePtr read_compare_();
  NodePtr read_sum_();
  NodePtr read_concat_();
  NodePtr read_product_();
  NodePtr read_power_();
  NodePtr read_unary_(bool with_filter);
  NodePtr read_filtered_unary_();
  NodePtr read_primary_();
  NodePtr read_list_();
  NodePtr read_dict_();
  NodePtr read_postfix_(NodePtr node);
  NodePtr read_filters_(NodePtr node);
  NodePtr read_filter_(NodePtr node);
  NodePtr read_test_(NodePtr node);
  NodePtr read_subscript_(NodePtr node);
  NodePtr read_subscripted_();
  void read_arguments_(Node& node);
  NodePtr read_binary_(const std::vector<std::string_view>& operators, NodePtr (Parser::*operand)());

  const Token& now_() const { return tokens_[at_]; }
  const Token& ahead_() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  void skip_() { at_ += at_ + 1 < tokens_.size(); }
  bool skip_if_symbol_(std::string_view symbol);
  bool skip_if_name_(std::string_view name);
  void expect_symbol_(std::string_view symbol);
  std::string expect_name_();
  std::string found_() const;
  [[noreturn]] void fail_(const std::string& what) const;
  void refuse_unknown_(size_t first) const;  // filters and tests from unknown_[first] on, if there are any
  NodePtr make_(Node::Type type) const;
  NodePtr checked_(NodePtr node) const;  // with its depth

  const std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  std::vector<Node*> macros_;  // that are being read
  int loops_ = 0;              // the same, within the innermost macro
  // Errors of unknown filters and tests read so far. As in Jinja, they are reported at the end of the innermost block
  // (loop, macro, template ...), except those in an {% if %} or a conditional expression, which fail when evaluated.
  std::vector<std::string> unknown_;
};

}  // namespace kvc::jinja
