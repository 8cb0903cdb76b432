// Renders a tree of nodes.
#pragma once

#include <map>

#include "jinja/arguments.h"
#include "jinja/node.h"
#include "jinja/scope.h"
#include "jinja/template.h"

namespace kvc::jinja {

class Evaluator {
 public:
  Evaluator(Run& run, const Given& given);
  // Namespaces and macros may hold each other: here they let go.
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  std::string render(const Nodes& nodes);

 private:
  enum class Flow { on, leave, next };  // what {% break %} and {% continue %} ask of the loop around them

  // evaluator.cpp: expressions
  Value eval_(const Node& node);
  Value name_(const Node& node);
  std::vector<Value> eval_all_(const Nodes& nodes, size_t first = 0);
  Value dict_(const Node& node);
  Value item_(const Node& node);
  Value binary_(const Node& node);
  Value compare_(const Node& node);
  Value concat_(const Node& node);
  Value filter_(const Node& node, const Value* input);
  Value call_(const Node& node, std::optional<Value> caller);
  Arguments arguments_(const Node& node);

  // statements.cpp
  Flow run_(const Nodes& nodes);
  Flow statement_(const Node& node);
  Flow loop_(const Node& node);
  Flow inner_(const Nodes& nodes);  // in a scope of its own
  std::vector<Value> loop_items_(const Node& node);
  std::string captured_(const Nodes& nodes);
  void assign_(const Node& target, const Value& value);
  void with_(const Node& node);
  Value macro_(const Node& node);
  std::string call_macro_(const Node& node, const std::shared_ptr<Scope>& scope, Arguments& given);
  void bind_(const Node& macro, Arguments& given);

  // functions.cpp
  std::optional<Value> function_(const std::string& name);
  Value namespace_(Arguments& given);

  Run& run_state_;
  const Given& given_;
  std::shared_ptr<Scope> scope_;
  Builder* out_ = nullptr;
  std::map<std::string, Value> functions_;            // those asked for
  std::vector<std::shared_ptr<Dict>> namespaces_;     // all that were made
  std::vector<std::shared_ptr<Scope>> macro_scopes_;  // those that macros see
};

}  // namespace kvc::jinja
