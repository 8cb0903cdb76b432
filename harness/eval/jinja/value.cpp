#include "jinja/value.h"

#include <algorithm>
#include <cmath>

#include "text/utf8.h"

namespace kvc::jinja {
namespace {

using Kind = Sequence::Kind;

int depth_of(const Value& value) {
  if (const auto* sequence = value.sequence()) return sequence->depth;
  if (const auto* dict = value.dict()) return dict->depth;
  if (const auto* loop = value.loop()) return loop->depth;
  return value.callable() ? value.callable()->depth : 0;  // a namespace is freed by itself, whatever it holds
}

int deeper(int depth, const Value& inner) {
  const int all = std::max(depth, depth_of(inner) + 1);
  KVC_CHECK(all <= kMaxNesting, "a value is nested deeper than ", kMaxNesting, " levels");
  return all;
}

bool equal_dicts(Run& run, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  return std::all_of(a.entries.begin(), a.entries.end(), [&](const auto& entry) {
    const auto* other = find(run, b, entry.first);
    return other && is_equal(run, entry.second, *other);
  });
}

double number(const Value& value) { return value.real() ? *value.real() : static_cast<double>(*value.whole()); }

// Lists compare with lists and tuples with tuples.
bool comparable(const Sequence& a, const Sequence& b) { return a.kind == b.kind && a.kind <= Kind::tuple; }

}  // namespace

Dict* Value::name_space() const {
  auto* dict = pointer<Dict>();
  return dict && dict->is_namespace ? dict : nullptr;
}

const Dict* Value::dict() const {
  const auto* dict = pointer<Dict>();
  return dict && !dict->is_namespace ? dict : nullptr;
}

const Sequence* Value::indexed() const {
  const auto* all = sequence();
  return all && all->kind <= Kind::range ? all : nullptr;
}

std::optional<int64_t> Value::whole() const {
  if (boolean()) return *boolean();
  return integer() ? std::optional(*integer()) : std::nullopt;
}

const void* Value::identity() const {
  if (text()) return text();
  if (sequence()) return sequence();
  if (callable()) return callable();
  if (loop()) return loop();
  return pointer<Dict>();
}

Value make_text(Run& run, std::string utf8, bool is_safe) {
  run.take(utf8.size() + sizeof(Text));
  return std::make_shared<const Text>(Text{std::move(utf8), is_safe});
}

Value make_sequence(Run& run, std::vector<Value> items, Kind kind) {
  run.take(items.size() * sizeof(Value) + sizeof(Sequence));
  auto sequence = std::make_shared<Sequence>();
  sequence->kind = kind;
  for (const auto& item : items) sequence->depth = deeper(sequence->depth, item);
  sequence->items = std::move(items);
  return sequence;
}

Value make_dict(Run& run, std::vector<Dict::Entry> entries) {
  run.take(entries.size() * sizeof(Dict::Entry) + sizeof(Dict));
  auto dict = std::make_shared<Dict>();
  for (auto& [key, value] : entries) {
    check_hashable(key);
    dict->depth = deeper(deeper(dict->depth, key), value);
    if (auto* known = const_cast<Value*>(find(run, *dict, key))) {
      *known = std::move(value);
    } else {
      dict->entries.emplace_back(std::move(key), std::move(value));
    }
  }
  return dict;
}

void check_hashable(const Value& value) {
  const auto* sequence = value.sequence();
  const bool is_hashable = !value.dict() && !value.name_space() && (!sequence || sequence->kind != Kind::list);
  KVC_CHECK(is_hashable, "unhashable type: '", type_name(value), "'");
  if (!sequence || sequence->kind != Kind::tuple) return;
  for (const auto& item : sequence->items) check_hashable(item);
}

Value make_undefined(std::string why) { return Undefined{std::make_shared<const std::string>(std::move(why))}; }

Value make_callable(std::string name, std::function<Value(Run&, Arguments&)> call, const Value& self) {
  return std::make_shared<const Callable>(Callable{std::move(name), deeper(0, self), std::move(call)});
}

Value make_loop(Run& run, std::vector<Value> items) {
  run.take(items.size() * sizeof(Value) + sizeof(Loop));
  auto loop = std::make_shared<Loop>();
  for (const auto& item : items) loop->depth = deeper(loop->depth, item);
  loop->items = std::move(items);
  return loop;
}

std::string type_name(const Value& value) {
  constexpr const char* kSequences[] = {"list",      "tuple",       "range",     "generator",
                                        "dict_keys", "dict_values", "dict_items"};
  if (value.is_none()) return "NoneType";
  if (value.undefined()) return "Undefined";
  if (value.boolean()) return "bool";
  if (value.integer()) return "int";
  if (value.real()) return "float";
  if (value.text()) return value.text()->is_safe ? "Markup" : "str";
  if (const auto* sequence = value.sequence()) return kSequences[static_cast<size_t>(sequence->kind)];
  if (value.dict()) return "dict";
  if (value.name_space()) return "namespace";
  return value.loop() ? "loop" : "function";
}

bool is_true(const Value& value) {
  if (value.is_none() || value.undefined()) return false;
  if (value.is_number()) return number(value) != 0;
  if (const auto* text = value.text()) return !text->utf8.empty();
  if (const auto* sequence = value.sequence()) return sequence->kind == Kind::generator || !sequence->items.empty();
  if (const auto* dict = value.dict()) return !dict->entries.empty();
  return true;  // a loop has at least the item that it is at
}

bool is_equal(Run& run, const Value& a, const Value& b) {
  run.step();
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.undefined() || b.undefined()) return a.undefined() && b.undefined();
  if (a.is_number() && b.is_number()) {
    if (a.whole() && b.whole()) return *a.whole() == *b.whole();
    return number(a) == number(b);
  }
  if (a.text() && b.text()) {
    run.step(static_cast<int64_t>(std::min(a.text()->utf8.size(), b.text()->utf8.size()) >> 8));
    return a.text()->utf8 == b.text()->utf8;
  }
  if (a.dict() && b.dict()) return equal_dicts(run, *a.dict(), *b.dict());
  const auto *left = a.sequence(), *right = b.sequence();
  if (left && right && comparable(*left, *right)) {
    return std::equal(left->items.begin(), left->items.end(), right->items.begin(), right->items.end(),
                      [&](const auto& x, const auto& y) { return is_equal(run, x, y); });
  }
  return a.identity() && a.identity() == b.identity();
}

bool is_less(Run& run, const Value& a, const Value& b) {
  run.step();
  for (const auto* value : {&a, &b}) KVC_CHECK(!value->undefined(), *value->undefined()->why);
  if (a.is_number() && b.is_number()) {
    if (a.whole() && b.whole()) return *a.whole() < *b.whole();
    return number(a) < number(b);
  }
  if (a.text() && b.text()) {
    run.step(static_cast<int64_t>(std::min(a.text()->utf8.size(), b.text()->utf8.size()) >> 8));
    return a.text()->utf8 < b.text()->utf8;  // UTF-8 has the order of code points
  }
  const auto *left = a.sequence(), *right = b.sequence();
  KVC_CHECK(left && right && comparable(*left, *right), "'<' is not supported between '", type_name(a), "' and '",
            type_name(b), "'");
  const auto n = std::min(left->items.size(), right->items.size());
  for (size_t i = 0; i < n; ++i) {
    if (!is_equal(run, left->items[i], right->items[i])) return is_less(run, left->items[i], right->items[i]);
  }
  return left->items.size() < right->items.size();
}

const Value* find(Run& run, const Dict& dict, const Value& key) {
  check_hashable(key);
  run.step(static_cast<int64_t>(dict.entries.size() >> 4));
  for (const auto& [name, value] : dict.entries) {
    if (key.text() ? name.text() && name.text()->utf8 == key.text()->utf8 : is_equal(run, name, key)) return &value;
  }
  return nullptr;
}

std::vector<Value> items_of(Run& run, const Value& value) {
  std::vector<Value> items;
  if (value.undefined()) return items;
  if (const auto* text = value.text()) {
    for (size_t at = 0; at < text->utf8.size();) {
      const auto n = next_code_point(text->utf8, at).n_bytes;
      run.take(sizeof(Value));
      items.push_back(make_text(run, text->utf8.substr(at, n)));
      at += n;
    }
  } else if (auto* sequence = value.sequence()) {
    if (sequence->is_spent) return items;
    run.take(sequence->items.size() * sizeof(Value));
    sequence->is_spent = sequence->kind == Kind::generator;
    items = sequence->items;
  } else {
    const auto* dict = value.dict();
    KVC_CHECK(dict, "'", type_name(value), "' object is not iterable");
    run.take(dict->entries.size() * sizeof(Value));
    for (const auto& entry : dict->entries) items.push_back(entry.first);
  }
  return items;
}

}  // namespace kvc::jinja
