// A template as a tree. The depth of a tree is bounded, so that it can be walked and freed by recursion.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jinja/value.h"

namespace kvc::jinja {

struct Node;
using NodePtr = std::unique_ptr<Node>;
using Nodes = std::vector<NodePtr>;

struct Keyword {
  std::string name;
  NodePtr value;
};

struct Node {
  enum class Type {
    // Expressions. `children` are operands in their order.
    constant,     // value
    name,         // text
    tuple,        // children; as a target, too
    list,         // children
    dict,         // children: key, value, key, value ...
    attribute,    // children[0].text
    item,         // children[0][children[1]]
    slice,        // children: begin, end, step; null where absent; below an item
    call,         // children[0](arguments)
    filter,       // children[0] | text(arguments); of a block of a filter children[0] is null
    test,         // children[0] is text(arguments)
    unary,        // text: -, +, not
    binary,       // text: the arithmetic ones, and, or
    concat,       // children, with ~
    compare,      // children[0] names[0] children[1] names[1] ...
    conditional,  // children: condition, then, else or null
    member,       // text.names[0]: an attribute of a namespace as a target
    // Statements. `body` is their content.
    data,        // text
    output,      // children[0]
    branch,      // children[0]: condition; body, otherwise
    loop,        // children: target, iterable, filter or null; body, otherwise
    assign,      // children: target, value
    capture,     // children: target, filter or null; body
    macro,       // text: its name; names: parameters; children: their defaults, null where absent; body
    call_block,  // children[0]: the call; children[1]: a macro without a name
    filtered,    // children[0]: the filter; body
    with,        // children: target, value, target, value ...; body
    generation,  // body
    leave,       // break
    next,        // continue
  };

  Type type;
  int line;
  int depth = 1;
  std::string text = {};
  Value value = {};
  Nodes children = {};
  std::vector<std::string> names = {};
  std::vector<Keyword> keywords = {};  // of calls, filters, tests
  NodePtr star = {}, two_stars = {};   // f(*star, **two_stars)
  Nodes body = {}, otherwise = {};
  bool takes_caller = false, takes_rest = false, takes_keywords = false;  // a macro that says caller, varargs, kwargs
};

}  // namespace kvc::jinja
