#include "jinja/evaluator.h"

#include <algorithm>

#include "jinja/access.h"
#include "jinja/filters.h"
#include "jinja/operators.h"
#include "text/utf8.h"

namespace kvc::jinja {
namespace {

using Type = Node::Type;

Value from_json(Run& run, const nlohmann::ordered_json& json) {
  if (json.is_null()) return {};
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned()) {
    const auto value = json.get<uint64_t>();
    KVC_CHECK(value <= INT64_MAX, "the integer ", value, " has more than 63 bits");
    return static_cast<int64_t>(value);
  }
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string()) return make_text(run, json.get<std::string>());
  if (json.is_array()) {
    std::vector<Value> items;
    for (const auto& item : json) items.push_back(from_json(run, item));
    return make_sequence(run, std::move(items));
  }
  std::vector<Dict::Entry> entries;
  for (const auto& [key, value] : json.items()) entries.emplace_back(make_text(run, key), from_json(run, value));
  return make_dict(run, std::move(entries));
}

}  // namespace

Evaluator::Evaluator(Run& run, const Given& given) : run_state_(run), given_(given), scope_(std::make_shared<Scope>()) {
  for (const auto& [name, value] : given.variables.items()) scope_->set(name, from_json(run, value));
}

Evaluator::~Evaluator() {
  for (const auto& names : namespaces_) names->entries.clear();
  for (const auto& scope : macro_scopes_) scope->names.clear();
}

std::string Evaluator::render(const Nodes& nodes) { return captured_(nodes); }

std::vector<Value> Evaluator::eval_all_(const Nodes& nodes, size_t first) {
  std::vector<Value> values;
  for (size_t i = first; i < nodes.size(); ++i) values.push_back(eval_(*nodes[i]));
  return values;
}

Value Evaluator::eval_(const Node& node) {
  const Level level(run_state_.depth, kMaxCallDepth);
  run_state_.line = node.line;
  run_state_.step();
  switch (node.type) {
    case Type::constant:
      return node.value;
    case Type::name:
      return name_(node);
    case Type::tuple:
      return make_sequence(run_state_, eval_all_(node.children), Sequence::Kind::tuple);
    case Type::list:
      return make_sequence(run_state_, eval_all_(node.children));
    case Type::dict:
      return dict_(node);
    case Type::attribute:
      return attribute(run_state_, eval_(*node.children[0]), node.text);
    case Type::item:
      return item_(node);
    case Type::call:
      return call_(node, std::nullopt);
    case Type::filter:
      return filter_(node, nullptr);
    case Type::test: {
      const auto value = eval_(*node.children[0]);
      return apply_test(run_state_, node.text, value, arguments_(node));
    }
    case Type::unary: {
      const auto value = eval_(*node.children[0]);
      if (node.text == "not") return !is_true(value);
      return node.text == "-" ? negate(value) : negate(negate(value));
    }
    case Type::binary:
      return binary_(node);
    case Type::concat:
      return concat_(node);
    case Type::compare:
      return compare_(node);
    case Type::conditional:
      if (is_true(eval_(*node.children[0]))) return eval_(*node.children[1]);
      if (node.children[2]) return eval_(*node.children[2]);
      return make_undefined("an if without else is false and has no value");
    default:
      throw Error("found a slice, expected a value");
  }
}

Value Evaluator::name_(const Node& node) {
  if (const auto* value = scope_->find(node.text)) return *value;
  if (const auto refused = given_.refused.find(node.text); refused != given_.refused.end())
    throw Error(refused->second);
  if (auto function = function_(node.text)) return *function;
  return make_undefined(concat("'", node.text, "' is undefined"));
}

Value Evaluator::dict_(const Node& node) {
  std::vector<Dict::Entry> entries;
  for (size_t i = 0; i < node.children.size(); i += 2) {
    auto key = eval_(*node.children[i]);
    entries.emplace_back(std::move(key), eval_(*node.children[i + 1]));
  }
  return make_dict(run_state_, std::move(entries));
}

Value Evaluator::item_(const Node& node) {
  const auto object = eval_(*node.children[0]);
  const auto& key = *node.children[1];
  if (key.type != Type::slice) return item(run_state_, object, eval_(key));
  const auto bound = [&](size_t i) -> std::optional<int64_t> {
    if (!key.children[i]) return std::nullopt;
    const auto value = eval_(*key.children[i]);
    return value.is_none() ? std::nullopt : std::optional(whole_of(value, "an end or the step of a slice"));
  };
  const Slice wanted{bound(0), bound(1), bound(2)};
  return slice(run_state_, object, wanted);
}

Value Evaluator::binary_(const Node& node) {
  auto left = eval_(*node.children[0]);
  if (node.text == "and" && !is_true(left)) return left;
  if (node.text == "or" && is_true(left)) return left;
  auto right = eval_(*node.children[1]);
  if (node.text == "and" || node.text == "or") return right;
  run_state_.line = node.line;
  return calculate(run_state_, node.text, left, right);
}

Value Evaluator::compare_(const Node& node) {
  auto left = eval_(*node.children[0]);
  for (size_t i = 0; i < node.names.size(); ++i) {
    auto right = eval_(*node.children[i + 1]);
    if (!compares(run_state_, node.names[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Evaluator::concat_(const Node& node) {
  Builder out(run_state_);
  for (const auto& value : eval_all_(node.children)) out << to_text(run_state_, value);
  return make_text(run_state_, out.finish());
}

Value Evaluator::filter_(const Node& node, const Value* input) {
  const auto* inner = node.children[0].get();
  const bool is_of_block = inner && inner->type == Type::filter && input;  // several filters of one block
  const auto value = is_of_block ? filter_(*inner, input) : inner ? eval_(*inner) : *input;
  auto given = arguments_(node);
  run_state_.line = node.line;
  return apply_filter(run_state_, node.text, value, std::move(given));
}

Arguments Evaluator::arguments_(const Node& node) {
  Arguments given{eval_all_(node.children, 1), {}};
  for (const auto& keyword : node.keywords) given.named.emplace_back(keyword.name, eval_(*keyword.value));
  if (node.star) {
    auto more = items_of(run_state_, eval_(*node.star));
    given.values.insert(given.values.end(), more.begin(), more.end());
  }
  if (!node.two_stars) return given;
  const auto more = eval_(*node.two_stars);
  KVC_CHECK(more.dict(), "the argument after ** is of type ", type_name(more), ", expected a mapping");
  for (const auto& [key, value] : more.dict()->entries) {
    const auto& name = text_of(key, "a name of an argument after **");
    const bool is_new =
        std::none_of(given.named.begin(), given.named.end(), [&](const auto& one) { return one.first == name; });
    KVC_CHECK(is_new, "a call gets '", name, "' twice");
    given.named.emplace_back(name, value);
  }
  return given;
}

Value Evaluator::call_(const Node& node, std::optional<Value> caller) {
  const auto called = eval_(*node.children[0]);
  KVC_CHECK(!called.undefined(), *called.undefined()->why);
  KVC_CHECK(called.callable(), "a value of type ", type_name(called), " cannot be called");
  auto given = arguments_(node);
  if (caller) given.named.emplace_back("caller", std::move(*caller));
  run_state_.line = node.line;
  return called.callable()->call(run_state_, given);
}

}  // namespace kvc::jinja
