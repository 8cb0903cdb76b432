// Names, literals, brackets and their content.
#include <algorithm>

#include "jinja/parser.h"

namespace kvc::jinja {

using Type = Node::Type;

namespace {

// A literal lives as long as its tree, off any budget: the template's own text bounds it.
Value literal(std::string text) { return std::make_shared<const Text>(Text{std::move(text)}); }

}  // namespace

NodePtr Parser::read_primary_() {
  auto node = make_(Type::constant);
  const auto& token = now_();
  switch (token.type) {
    case Token::Type::name: {
      const auto& name = token.text;
      skip_();
      if (name == "none" || name == "None") return node;
      const bool is_true = name == "true" || name == "True";
      if (is_true || name == "false" || name == "False") return node->value = is_true, std::move(node);
      node->type = Type::name, node->text = name;
      for (auto* macro : macros_) {
        macro->takes_caller |= name == "caller", macro->takes_rest |= name == "varargs";
        macro->takes_keywords |= name == "kwargs";
      }
      return node;
    }
    case Token::Type::text: {
      std::string text;
      for (; now_().type == Token::Type::text; skip_()) text += now_().text;
      node->value = literal(std::move(text));
      return node;
    }
    case Token::Type::integer:
      node->value = token.integer, skip_();
      return node;
    case Token::Type::real:
      node->value = token.real, skip_();
      return node;
    default:
      break;
  }
  if (skip_if_symbol_("(")) {
    auto tuple = read_tuple_(true, true);
    expect_symbol_(")");
    return tuple;
  }
  if (token.is_symbol("[")) return read_list_();
  if (token.is_symbol("{")) return read_dict_();
  fail_(concat("found ", found_(), ", expected a value"));
}

NodePtr Parser::read_list_() {
  auto list = make_(Type::list);
  expect_symbol_("[");
  while (!now_().is_symbol("]")) {
    list->children.push_back(read_expression_());
    if (!skip_if_symbol_(",")) break;
  }
  expect_symbol_("]");
  return checked_(std::move(list));
}

NodePtr Parser::read_dict_() {
  auto dict = make_(Type::dict);
  expect_symbol_("{");
  while (!now_().is_symbol("}")) {
    dict->children.push_back(read_expression_());
    expect_symbol_(":");
    dict->children.push_back(read_expression_());
    if (!skip_if_symbol_(",")) break;
  }
  expect_symbol_("}");
  return checked_(std::move(dict));
}

NodePtr Parser::read_subscript_(NodePtr node) {
  const bool is_dot = now_().is_symbol(".");
  skip_();
  if (is_dot && now_().type == Token::Type::name) {
    auto attribute = make_(Type::attribute);
    attribute->text = expect_name_();
    attribute->children.push_back(std::move(node));
    return checked_(std::move(attribute));
  }
  auto item = make_(Type::item);
  item->children.push_back(std::move(node));
  if (is_dot) {
    if (now_().type != Token::Type::integer) fail_(concat("found ", found_(), ", expected a name or a number"));
    item->children.push_back(read_primary_());
    return checked_(std::move(item));
  }
  Nodes keys;
  while (!now_().is_symbol("]")) {
    keys.push_back(read_subscripted_());
    if (!skip_if_symbol_(",")) break;
  }
  if (keys.empty()) fail_("found nothing between [ and ], expected an index");
  auto tuple = make_(Type::tuple);
  tuple->children = std::move(keys);
  item->children.push_back(tuple->children.size() == 1 ? std::move(tuple->children.front())
                                                       : checked_(std::move(tuple)));
  expect_symbol_("]");
  return checked_(std::move(item));
}

// An index, or begin:end:step, each of which may be absent.
NodePtr Parser::read_subscripted_() {
  auto slice = make_(Type::slice);
  const auto ends = [&] { return now_().is_symbol(":") || now_().is_symbol("]") || now_().is_symbol(","); };
  slice->children.push_back(ends() ? nullptr : read_expression_());
  if (!now_().is_symbol(":")) {
    if (!slice->children.front()) fail_(concat("found ", found_(), ", expected an index"));
    return std::move(slice->children.front());
  }
  skip_();
  slice->children.push_back(ends() ? nullptr : read_expression_());
  slice->children.push_back(skip_if_symbol_(":") && !ends() ? read_expression_() : nullptr);
  return checked_(std::move(slice));
}

void Parser::read_arguments_(Node& node) {
  expect_symbol_("(");
  while (!now_().is_symbol(")")) {
    if (skip_if_symbol_("*")) {
      if (node.star || node.two_stars) fail_("a call has two arguments with *");
      node.star = read_expression_();
    } else if (skip_if_symbol_("**")) {
      if (node.two_stars) fail_("a call has two arguments with **");
      node.two_stars = read_expression_();
    } else if (now_().type == Token::Type::name && ahead_().is_symbol("=")) {
      auto name = expect_name_();
      skip_();
      const auto is_same = [&](const auto& keyword) { return keyword.name == name; };
      if (node.two_stars || std::any_of(node.keywords.begin(), node.keywords.end(), is_same)) {
        fail_(concat("the argument '", name, "' is out of its place, or there twice"));
      }
      node.keywords.push_back({std::move(name), read_expression_()});
    } else {
      if (!node.keywords.empty() || node.star || node.two_stars)
        fail_("an argument without a name follows one with a name");
      node.children.push_back(read_expression_());
    }
    if (!skip_if_symbol_(",")) break;
  }
  expect_symbol_(")");
}

}  // namespace kvc::jinja
