#include "jinja/parser.h"

#include <algorithm>

#include "text/nearest.h"
#include "text/utf8.h"

namespace kvc::jinja {
namespace {

using Type = Node::Type;

const std::vector<std::string> kTags = {"break", "call",  "continue", "filter", "for", "generation",
                                        "if",    "macro", "print",    "raw",    "set", "with"};
const std::vector<std::string> kOtherTags = {"autoescape", "block", "extends", "from", "import", "include"};

bool is_one_of(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Nodes Parser::read() {
  try {
    auto nodes = read_until_({});
    refuse_unknown_(0);
    return nodes;
  } catch (const Error& e) {
    const std::string what = e.what();
    throw what.starts_with("line ") ? e : Error(concat("line ", now_().line, ": ", what));
  }
}

// Up to a tag of one of these names, whose opening is skipped; up to the template's end where there are none.
Nodes Parser::read_until_(const std::vector<std::string>& ends) {
  const Level level(nesting_, kMaxNesting);
  Nodes nodes;
  while (now_().type != Token::Type::end) {
    auto node = make_(Type::data);
    if (now_().type == Token::Type::data) {
      node->text = now_().text;
      skip_();
    } else if (now_().text == "{{") {
      skip_();
      node->type = Type::output;
      node->children.push_back(read_tuple_());
      close_block_();
      node = checked_(std::move(node));
    } else {
      skip_();
      if (is_one_of(ends, now_().text) && now_().type == Token::Type::name) return nodes;
      node = checked_(read_statement_());
      close_block_();
    }
    nodes.push_back(std::move(node));
  }
  if (!ends.empty()) fail_(concat("the template ends, expected {% ", join(ends, " %} or {% "), " %}"));
  return nodes;
}

void Parser::refuse_unknown_(size_t first) const {
  if (unknown_.size() > first) throw Error(unknown_[first]);
}

void Parser::close_block_() {
  if (now_().type != Token::Type::close) fail_(concat("found ", found_(), ", expected the end of the tag"));
  skip_();
}

// Everything between the rest of the tag and the tag that ends it; the end tag's name is skipped if only one ends it.
Nodes Parser::read_body_(const std::vector<std::string>& ends) {
  skip_if_symbol_(":");
  close_block_();
  auto nodes = read_until_(ends);
  if (ends.size() == 1) skip_();
  return nodes;
}

NodePtr Parser::read_statement_() {
  auto node = make_(Type::data);
  const auto name = now_().type == Token::Type::name ? now_().text : "";
  if (name.empty()) fail_(concat("found ", found_(), ", expected a tag's name"));
  if (is_one_of(kOtherTags, name)) fail_(concat("{% ", name, " %} is not supported"));
  if (!is_one_of(kTags, name)) fail_(unknown_name("tag", name, kTags));
  skip_();
  if (name == "for") return read_for_();
  if (name == "if") return read_if_();
  if (name == "set") return read_set_();
  if (name == "macro") return read_macro_();
  if (name == "call") return read_call_block_();
  if (name == "filter") return read_filter_block_();
  if (name == "with") return read_with_();
  if (name == "break" || name == "continue") {
    if (loops_ == 0) fail_(concat("{% ", name, " %} is in no loop"));
    node->type = name == "break" ? Type::leave : Type::next;
  } else if (name == "generation") {
    node->type = Type::generation;
    node->body = read_body_({"endgeneration"});
  } else {
    node->type = Type::output;
    node->children.push_back(read_tuple_());
  }
  return node;
}

// Names, tuples of them, and of {% set %} members of a namespace.
NodePtr Parser::read_target_(bool may_be_member) {
  const Level level(nesting_, kMaxNesting);
  auto tuple = make_(Type::tuple);
  bool is_tuple = false;
  while (true) {
    auto node = make_(Type::name);
    if (skip_if_symbol_("(")) {
      node = read_target_(may_be_member);
      expect_symbol_(")");
    } else {
      node->text = expect_name_();
      constexpr std::string_view kConstants[] = {"true", "True", "false", "False", "none", "None"};
      if (std::find(std::begin(kConstants), std::end(kConstants), node->text) != std::end(kConstants)) {
        fail_(concat("'", node->text, "' cannot be set"));
      }
      if (may_be_member && skip_if_symbol_(".")) node->type = Type::member, node->names.push_back(expect_name_());
    }
    tuple->children.push_back(std::move(node));
    if (!skip_if_symbol_(",")) break;
    is_tuple = true;
    if (now_().is_name("in") || now_().is_symbol("=") || now_().is_symbol(")")) break;
  }
  return is_tuple ? checked_(std::move(tuple)) : std::move(tuple->children.front());
}

NodePtr Parser::read_for_() {
  auto node = make_(Type::loop);
  node->children.push_back(read_target_(false));
  if (!skip_if_name_("in")) fail_(concat("found ", found_(), ", expected 'in'"));
  node->children.push_back(read_tuple_(false));
  const auto first_unknown = unknown_.size();
  node->children.push_back(skip_if_name_("if") ? read_expression_() : nullptr);
  if (now_().is_name("recursive")) fail_("{% for ... recursive %} is not supported");
  ++loops_;
  node->body = read_body_({"endfor", "else"});
  --loops_;
  const bool has_else = now_().is_name("else");
  skip_();
  if (has_else) node->otherwise = read_body_({"endfor"});
  refuse_unknown_(first_unknown);
  return node;
}

NodePtr Parser::read_if_() {
  auto first = make_(Type::branch);
  const auto first_unknown = unknown_.size();
  std::vector<NodePtr> branches;
  while (true) {
    auto node = branches.empty() ? std::move(first) : make_(Type::branch);
    node->children.push_back(read_tuple_(false));
    node->body = read_body_({"elif", "else", "endif"});
    branches.push_back(std::move(node));
    if (!skip_if_name_("elif")) break;
  }
  if (skip_if_name_("else")) {
    branches.back()->otherwise = read_body_({"endif"});
  } else {
    skip_();
  }
  unknown_.resize(first_unknown);
  // Each elif is nested in the branch before it, so N of them count as N levels.
  while (branches.size() > 1) {
    auto last = checked_(std::move(branches.back()));
    branches.pop_back();
    branches.back()->otherwise.push_back(std::move(last));
  }
  return std::move(branches.front());
}

NodePtr Parser::read_set_() {
  auto node = make_(Type::assign);
  node->children.push_back(read_target_(true));
  if (skip_if_symbol_("=")) {
    node->children.push_back(read_tuple_());
    return node;
  }
  node->type = Type::capture;
  const auto first_unknown = unknown_.size();
  NodePtr filter;
  while (skip_if_symbol_("|")) filter = read_filter_(std::move(filter));
  node->children.push_back(std::move(filter));
  node->body = read_body_({"endset"});
  refuse_unknown_(first_unknown);
  return node;
}

void Parser::read_parameters_(Node& macro) {
  expect_symbol_("(");
  while (!now_().is_symbol(")")) {
    macro.names.push_back(expect_name_());
    const bool has_default = skip_if_symbol_("=");
    if (!has_default && !macro.children.empty() && macro.children.back()) {
      fail_("a parameter without a default follows one with a default");
    }
    macro.children.push_back(has_default ? read_expression_() : nullptr);
    if (!skip_if_symbol_(",")) break;
  }
  expect_symbol_(")");
}

NodePtr Parser::read_macro_() {
  auto node = make_(Type::macro);
  node->text = expect_name_();
  macros_.push_back(node.get());
  const auto loops = std::exchange(loops_, 0);
  const auto first_unknown = unknown_.size();
  read_parameters_(*node);
  node->body = read_body_({"endmacro"});
  refuse_unknown_(first_unknown);
  loops_ = loops;
  macros_.pop_back();
  return node;
}

NodePtr Parser::read_call_block_() {
  auto node = make_(Type::call_block);
  auto caller = make_(Type::macro);
  caller->text = "caller";
  macros_.push_back(caller.get());
  const auto loops = std::exchange(loops_, 0);
  const auto first_unknown = unknown_.size();
  if (now_().is_symbol("(")) read_parameters_(*caller);
  macros_.pop_back();
  node->children.push_back(read_expression_());
  if (node->children.front()->type != Type::call) fail_("{% call %} has no call");
  macros_.push_back(caller.get());
  caller->body = read_body_({"endcall"});
  refuse_unknown_(first_unknown);
  macros_.pop_back();
  loops_ = loops;
  node->children.push_back(checked_(std::move(caller)));
  return node;
}

NodePtr Parser::read_filter_block_() {
  auto node = make_(Type::filtered);
  const auto first_unknown = unknown_.size();
  NodePtr filter = read_filter_(nullptr);
  while (skip_if_symbol_("|")) filter = read_filter_(std::move(filter));
  node->children.push_back(std::move(filter));
  node->body = read_body_({"endfilter"});
  refuse_unknown_(first_unknown);
  return node;
}

NodePtr Parser::read_with_() {
  auto node = make_(Type::with);
  while (now_().type != Token::Type::close) {
    node->children.push_back(read_target_(false));
    expect_symbol_("=");
    node->children.push_back(read_expression_());
    if (!skip_if_symbol_(",")) break;
  }
  const auto first_unknown = unknown_.size();
  node->body = read_body_({"endwith"});
  refuse_unknown_(first_unknown);
  return node;
}

}  // namespace kvc::jinja
