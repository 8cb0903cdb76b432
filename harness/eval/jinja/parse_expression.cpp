#include <algorithm>

#include "jinja/filters.h"
#include "jinja/parser.h"
#include "text/nearest.h"
#include "text/utf8.h"

namespace kvc::jinja {

using Type = Node::Type;

bool Parser::skip_if_symbol_(std::string_view symbol) {
  if (!now_().is_symbol(symbol)) return false;
  skip_();
  return true;
}

bool Parser::skip_if_name_(std::string_view name) {
  if (!now_().is_name(name)) return false;
  skip_();
  return true;
}

std::string Parser::found_() const {
  switch (now_().type) {
    case Token::Type::end:
      return "the end of the template";
    case Token::Type::close:
      return "the end of the tag";
    case Token::Type::text:
      return "the text " + in_quotes(now_().text);
    default:
      return in_quotes(now_().text);
  }
}

void Parser::fail_(const std::string& what) const { throw Error(concat("line ", now_().line, ": ", what)); }

void Parser::expect_symbol_(std::string_view symbol) {
  if (!skip_if_symbol_(symbol)) fail_(concat("found ", found_(), ", expected '", symbol, "'"));
}

std::string Parser::expect_name_() {
  if (now_().type != Token::Type::name) fail_(concat("found ", found_(), ", expected a name"));
  auto name = now_().text;
  skip_();
  return name;
}

NodePtr Parser::make_(Type type) const { return std::make_unique<Node>(Node{type, now_().line}); }

NodePtr Parser::checked_(NodePtr node) const {
  const auto count = [&](const NodePtr& inner) {
    if (inner) node->depth = std::max(node->depth, inner->depth + 1);
  };
  for (const auto& child : node->children) count(child);
  for (const auto& child : node->body) count(child);
  for (const auto& child : node->otherwise) count(child);
  for (const auto& keyword : node->keywords) count(keyword.value);
  count(node->star), count(node->two_stars);
  if (node->depth > kMaxNodeDepth) fail_(concat("an expression has more than ", kMaxNodeDepth, " levels"));
  return node;
}

NodePtr Parser::read_tuple_(bool with_conditional, bool in_parentheses) {
  auto tuple = make_(Type::tuple);
  bool is_tuple = false;
  const auto ends = [&] { return now_().type == Token::Type::close || now_().is_symbol(")"); };
  while (!ends()) {
    tuple->children.push_back(with_conditional ? read_expression_() : read_or_());
    if (!skip_if_symbol_(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !tuple->children.empty()) return std::move(tuple->children.front());
  if (!is_tuple && !in_parentheses) fail_(concat("found ", found_(), ", expected an expression"));
  return checked_(std::move(tuple));
}

NodePtr Parser::read_conditional_() {
  const Level level(nesting_, kMaxNesting);
  const auto first_unknown = unknown_.size();
  auto then = read_or_();
  while (now_().is_name("if")) {
    auto node = make_(Type::conditional);
    skip_();
    auto condition = read_or_();
    auto otherwise = skip_if_name_("else") ? read_conditional_() : nullptr;
    node->children.push_back(std::move(condition));
    node->children.push_back(std::move(then));
    node->children.push_back(std::move(otherwise));
    then = checked_(std::move(node));
    unknown_.resize(first_unknown);
  }
  return then;
}

NodePtr Parser::read_or_() { return read_binary_({"or"}, &Parser::read_and_); }
NodePtr Parser::read_and_() { return read_binary_({"and"}, &Parser::read_not_); }

NodePtr Parser::read_not_() {
  const Level level(nesting_, kMaxNesting);
  if (!now_().is_name("not")) return read_compare_();
  auto node = make_(Type::unary);
  node->text = "not";
  skip_();
  node->children.push_back(read_not_());
  return checked_(std::move(node));
}

NodePtr Parser::read_compare_() {
  auto node = make_(Type::compare);
  node->children.push_back(read_sum_());
  while (true) {
    const auto& token = now_();
    constexpr std::string_view kSymbols[] = {"==", "!=", "<", "<=", ">", ">="};
    const auto is_one = [&](auto symbol) { return token.is_symbol(symbol); };
    if (std::any_of(std::begin(kSymbols), std::end(kSymbols), is_one)) {
      node->names.push_back(token.text);
    } else if (token.is_name("in")) {
      node->names.emplace_back("in");
    } else if (token.is_name("not") && ahead_().is_name("in")) {
      node->names.emplace_back("not in");
      skip_();
    } else {
      break;
    }
    skip_();
    node->children.push_back(read_sum_());
  }
  return node->names.empty() ? std::move(node->children.front()) : checked_(std::move(node));
}

// From left to right. An operator is a symbol or a name.
NodePtr Parser::read_binary_(const std::vector<std::string_view>& operators, NodePtr (Parser::*operand)()) {
  const auto is_now = [&](auto text) { return now_().is_symbol(text) || now_().is_name(text); };
  auto left = (this->*operand)();
  while (std::any_of(operators.begin(), operators.end(), is_now)) {
    auto node = make_(Type::binary);
    node->text = now_().text;
    skip_();
    node->children.push_back(std::move(left));
    node->children.push_back((this->*operand)());
    left = checked_(std::move(node));
  }
  return left;
}

NodePtr Parser::read_sum_() { return read_binary_({"+", "-"}, &Parser::read_concat_); }
NodePtr Parser::read_product_() { return read_binary_({"*", "/", "//", "%"}, &Parser::read_power_); }

NodePtr Parser::read_power_() { return read_binary_({"**"}, &Parser::read_filtered_unary_); }  // unlike Python's

NodePtr Parser::read_concat_() {
  auto node = make_(Type::concat);
  do node->children.push_back(read_product_());
  while (skip_if_symbol_("~"));
  return node->children.size() == 1 ? std::move(node->children.front()) : checked_(std::move(node));
}

NodePtr Parser::read_filtered_unary_() { return read_unary_(true); }

NodePtr Parser::read_unary_(bool with_filter) {
  const Level level(nesting_, kMaxNesting);
  NodePtr node;
  if (now_().is_symbol("-") || now_().is_symbol("+")) {
    node = make_(Type::unary);
    node->text = now_().text;
    skip_();
    node->children.push_back(read_unary_(false));
    node = checked_(std::move(node));
  } else {
    node = read_primary_();
  }
  node = read_postfix_(std::move(node));
  return with_filter ? read_filters_(std::move(node)) : std::move(node);
}

NodePtr Parser::read_postfix_(NodePtr node) {
  while (true) {
    if (now_().is_symbol(".") || now_().is_symbol("[")) {
      node = read_subscript_(std::move(node));
    } else if (now_().is_symbol("(")) {
      auto call = make_(Type::call);
      call->children.push_back(std::move(node));
      read_arguments_(*call);
      node = checked_(std::move(call));
    } else {
      return node;
    }
  }
}

NodePtr Parser::read_filters_(NodePtr node) {
  while (true) {
    if (now_().is_symbol("|")) {
      skip_();
      node = read_filter_(std::move(node));
    } else if (now_().is_name("is")) {
      node = read_test_(std::move(node));
    } else if (now_().is_symbol("(")) {
      auto call = make_(Type::call);
      call->children.push_back(std::move(node));
      read_arguments_(*call);
      node = checked_(std::move(call));
    } else {
      return node;
    }
  }
}

NodePtr Parser::read_filter_(NodePtr node) {
  auto filter = make_(Type::filter);
  filter->text = expect_name_();
  if (!find_filter(filter->text)) {
    unknown_.push_back(concat("line ", filter->line, ": ", unknown_name("filter", filter->text, filter_names())));
  }
  filter->children.push_back(std::move(node));
  if (now_().is_symbol("(")) read_arguments_(*filter);
  return checked_(std::move(filter));
}

NodePtr Parser::read_test_(NodePtr node) {
  auto test = make_(Type::test);
  skip_();
  const bool is_negated = skip_if_name_("not");
  test->text = expect_name_();
  if (!find_test(test->text)) {
    unknown_.push_back(concat("line ", test->line, ": ", unknown_name("test", test->text, test_names())));
  }
  test->children.push_back(std::move(node));
  using T = Token::Type;
  const auto& token = now_();
  const bool ends = token.is_name("else") || token.is_name("or") || token.is_name("and");
  if (token.is_symbol("(")) {
    read_arguments_(*test);
  } else if (!ends && (token.type == T::name || token.type == T::text || token.type == T::integer ||
                       token.type == T::real || token.is_symbol("[") || token.is_symbol("{"))) {
    if (token.is_name("is")) fail_("tests cannot be chained with is");
    test->children.push_back(read_postfix_(read_primary_()));
  }
  auto result = checked_(std::move(test));
  if (!is_negated) return result;
  auto node_not = make_(Type::unary);
  node_not->text = "not";
  node_not->children.push_back(std::move(result));
  return checked_(std::move(node_not));
}

}  // namespace kvc::jinja
