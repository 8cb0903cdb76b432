// Statements: what they write, set and repeat.
#include <algorithm>

#include "jinja/evaluator.h"
#include "text/utf8.h"

namespace kvc::jinja {

using Type = Node::Type;

namespace {

// Puts a value in place of another while it lives.
template <class T>
class Instead {
 public:
  Instead(T& place, T value) : place_(place), before_(std::exchange(place, std::move(value))) {}
  ~Instead() { place_ = std::move(before_); }
  Instead(const Instead&) = delete;
  Instead& operator=(const Instead&) = delete;

 private:
  T& place_;
  T before_;
};

std::shared_ptr<Scope> inside(const std::shared_ptr<Scope>& outer) { return std::make_shared<Scope>(Scope{outer}); }

}  // namespace

Evaluator::Flow Evaluator::run_(const Nodes& nodes) {
  const Level level(run_state_.depth, kMaxCallDepth);
  for (const auto& node : nodes) {
    if (const auto flow = statement_(*node); flow != Flow::on) return flow;
  }
  return Flow::on;
}

Evaluator::Flow Evaluator::inner_(const Nodes& nodes) {
  const Instead scope(scope_, inside(scope_));
  return run_(nodes);
}

// What the nodes write, in a scope of their own unless they are the whole template.
std::string Evaluator::captured_(const Nodes& nodes) {
  Builder out(run_state_);
  const Instead<Builder*> builder(out_, &out);
  run_(nodes);
  return out.finish();
}

Evaluator::Flow Evaluator::statement_(const Node& node) {
  run_state_.line = node.line;
  run_state_.step();
  switch (node.type) {
    case Type::data:
      *out_ << node.text;
      break;
    case Type::output:
      *out_ << to_text(run_state_, eval_(*node.children[0]));
      break;
    case Type::branch:
      return run_(is_true(eval_(*node.children[0])) ? node.body : node.otherwise);
    case Type::loop:
      return loop_(node);
    case Type::assign:
      assign_(*node.children[0], eval_(*node.children[1]));
      break;
    case Type::capture:
    case Type::filtered: {
      const Instead scope(scope_, inside(scope_));
      auto text = make_text(run_state_, captured_(node.body));
      const auto* filter = node.children.back().get();
      auto value = filter ? filter_(*filter, &text) : std::move(text);
      scope_ = scope_->outer;
      if (node.type == Type::filtered) {
        *out_ << to_text(run_state_, value);
      } else {
        assign_(*node.children[0], value);
      }
      break;
    }
    case Type::macro:
      scope_->set(node.text, macro_(node));
      break;
    case Type::call_block:
      *out_ << to_text(run_state_, call_(*node.children[0], macro_(*node.children[1])));
      break;
    case Type::with:
      with_(node);
      break;
    case Type::generation:
      return inner_(node.body);
    case Type::leave:
      return Flow::leave;
    case Type::next:
      return Flow::next;
    default:
      throw Error("an expression stands here, expected a statement");
  }
  return Flow::on;
}

void Evaluator::with_(const Node& node) {
  std::vector<Value> values;
  for (size_t i = 1; i < node.children.size(); i += 2) values.push_back(eval_(*node.children[i]));
  const Instead scope(scope_, inside(scope_));
  for (size_t i = 0; i < values.size(); ++i) assign_(*node.children[2 * i], values[i]);
  run_(node.body);
}

std::vector<Value> Evaluator::loop_items_(const Node& node) {
  auto items = items_of(run_state_, eval_(*node.children[1]));
  if (!node.children[2]) return items;
  std::vector<Value> kept;
  for (auto& item : items) {
    const Instead scope(scope_, inside(scope_));
    assign_(*node.children[0], item);
    if (is_true(eval_(*node.children[2]))) kept.push_back(std::move(item));
  }
  return kept;
}

Evaluator::Flow Evaluator::loop_(const Node& node) {
  const auto value = make_loop(run_state_, loop_items_(node));
  auto& loop = *value.loop();
  if (loop.items.empty()) return inner_(node.otherwise);
  auto flow = Flow::on;
  for (loop.at = 0; loop.at < loop.items.size() && flow != Flow::leave; ++loop.at) {
    run_state_.step();
    const Instead scope(scope_, inside(scope_));
    scope_->set("loop", value);
    assign_(*node.children[0], loop.items[loop.at]);
    flow = run_(node.body);
  }
  loop.last_seen.clear();  // which may hold the loop itself
  return Flow::on;
}

void Evaluator::assign_(const Node& target, const Value& value) {
  if (target.type == Type::name) return scope_->set(target.text, value);
  if (target.type == Type::member) {
    const auto* found = scope_->find(target.text);
    auto* names = found ? found->name_space() : nullptr;
    KVC_CHECK(names, "'", target.text, ".", target.names[0], "' is set, and '", target.text, "' is no namespace");
    return set_member(run_state_, *names, target.names[0], value);
  }
  const auto items = items_of(run_state_, value);
  KVC_CHECK(items.size() == target.children.size(), "there are ", items.size(), " values for ", target.children.size(),
            " names");
  for (size_t i = 0; i < items.size(); ++i) assign_(*target.children[i], items[i]);
}

Value Evaluator::macro_(const Node& node) {
  if (std::find(macro_scopes_.begin(), macro_scopes_.end(), scope_) == macro_scopes_.end())
    macro_scopes_.push_back(scope_);
  run_state_.take(sizeof(Callable) + sizeof(Scope));
  return make_callable(node.text, [this, &node, scope = scope_](Run& run, Arguments& given) {
    return make_text(run, call_macro_(node, scope, given));
  });
}

std::string Evaluator::call_macro_(const Node& node, const std::shared_ptr<Scope>& scope, Arguments& given) {
  const Instead own(scope_, inside(scope));
  bind_(node, given);
  return captured_(node.body);
}

void Evaluator::bind_(const Node& macro, Arguments& given) {
  Parameters parameters(concat("the macro '", macro.text, "'"), given);
  std::vector<std::optional<Value>> values;
  for (const auto& name : macro.names) values.push_back(parameters.find(name));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto& name = macro.names[i];
    if (values[i]) {
      scope_->set(name, *values[i]);
    } else if (macro.children[i]) {
      scope_->set(name, eval_(*macro.children[i]));
    } else {
      scope_->set(name, make_undefined(concat("parameter '", name, "' was not provided")));
    }
  }
  const bool has_caller = std::find(macro.names.begin(), macro.names.end(), "caller") != macro.names.end();
  if (macro.takes_caller && !has_caller) {
    const auto caller = parameters.by_name("caller");
    scope_->set("caller", caller ? *caller : make_undefined("there is no caller"));
  }
  if (macro.takes_rest) scope_->set("varargs", make_sequence(run_state_, parameters.rest(), Sequence::Kind::tuple));
  if (macro.takes_keywords) {
    std::vector<Dict::Entry> entries;
    for (auto& [name, value] : parameters.rest_named())
      entries.emplace_back(make_text(run_state_, name), std::move(value));
    scope_->set("kwargs", make_dict(run_state_, std::move(entries)));
  }
  parameters.finish();
}

}  // namespace kvc::jinja
