// Values of templates: Python's, as far as templates see them. Texts are UTF-8 and count in code points. Lists, tuples
// and dictionaries do not change once made, as the immutable sandbox has it; a namespace does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "jinja/budget.h"

namespace kvc::jinja {

class Value;
struct Arguments;
struct Loop;

struct Undefined {
  std::shared_ptr<const std::string> why;  // "'x' is undefined": what an operation on it is told
};

struct Text {
  std::string utf8;
  bool is_safe = false;  // as `|safe` marks it: text added to it is escaped for HTML
};

struct Sequence {
  // What Python calls these; a generator is read once, and a view is neither indexed nor added to.
  enum class Kind : uint8_t { list, tuple, range, generator, keys, values, items };
  Kind kind = Kind::list;
  std::vector<Value> items;
  int depth = 1;           // of what is nested in it
  bool is_spent = false;   // of a generator: it has been read
  std::string in_words{};  // of a range: "range(0, 3)"
};

struct Dict {
  using Entry = std::pair<Value, Value>;
  std::vector<Entry> entries;  // in the order of insertion
  int depth = 1;
  bool is_namespace = false;
};

struct Callable {
  std::string name;  // of messages
  int depth = 0;     // of the value that it is a method of
  std::function<Value(Run&, Arguments&)> call;
};

struct None {};

class Value {
 public:
  Value() = default;  // none
  Value(Undefined undefined) : held_(std::move(undefined)) {}
  Value(bool boolean) : held_(boolean) {}
  Value(int64_t integer) : held_(integer) {}
  Value(double real) : held_(real) {}
  Value(std::shared_ptr<const Text> text) : held_(std::move(text)) {}
  Value(std::shared_ptr<Sequence> sequence) : held_(std::move(sequence)) {}
  Value(std::shared_ptr<Dict> dict) : held_(std::move(dict)) {}
  Value(std::shared_ptr<const Callable> callable) : held_(std::move(callable)) {}
  Value(std::shared_ptr<Loop> loop) : held_(std::move(loop)) {}
  Value(const char*) = delete;  // would be a bool

  bool is_none() const { return std::holds_alternative<None>(held_); }
  const Undefined* undefined() const { return std::get_if<Undefined>(&held_); }
  const bool* boolean() const { return std::get_if<bool>(&held_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&held_); }
  const double* real() const { return std::get_if<double>(&held_); }
  const Text* text() const { return pointer<const Text>(); }
  Sequence* sequence() const { return pointer<Sequence>(); }
  const Dict* dict() const;  // null of a namespace
  Dict* name_space() const;
  const Callable* callable() const { return pointer<const Callable>(); }
  Loop* loop() const { return pointer<Loop>(); }
  std::shared_ptr<Loop> shared_loop() const { return std::get<std::shared_ptr<Loop>>(held_); }

  // A list or a tuple, which are indexed and added to; null of others.
  const Sequence* indexed() const;
  bool is_number() const { return boolean() || integer() || real(); }
  // An integer or a bool, which is one in Python.
  std::optional<int64_t> whole() const;

  const void* identity() const;  // of what is shared; null of numbers and none

 private:
  template <class T>
  T* pointer() const {
    const auto* shared = std::get_if<std::shared_ptr<T>>(&held_);
    return shared ? shared->get() : nullptr;
  }

  std::variant<None, Undefined, bool, int64_t, double, std::shared_ptr<const Text>, std::shared_ptr<Sequence>,
               std::shared_ptr<Dict>, std::shared_ptr<const Callable>, std::shared_ptr<Loop>>
      held_;
};

// The loop variable. `at` counts from 0.
struct Loop {
  std::vector<Value> items;
  int depth = 1;
  size_t at = 0;
  std::vector<Value> last_seen{};  // by changed()
  bool has_seen = false;
};

// Makers, which count what they take on the budget.
Value make_text(Run& run, std::string utf8, bool is_safe = false);
Value make_sequence(Run& run, std::vector<Value> items, Sequence::Kind kind = Sequence::Kind::list);
Value make_dict(Run& run, std::vector<Dict::Entry> entries);  // of equal keys the first keeps its place, the last wins
Value make_undefined(std::string why);
Value make_callable(std::string name, std::function<Value(Run&, Arguments&)> call, const Value& self = {});
Value make_loop(Run& run, std::vector<Value> items);

// As Python names the type: "str", "NoneType", "dict_items".
std::string type_name(const Value& value);

bool is_true(const Value& value);
bool is_equal(Run& run, const Value& a, const Value& b);
// Python's <. Throws Error for types that have no order.
bool is_less(Run& run, const Value& a, const Value& b);

// Throws Error for what cannot be a dictionary's key.
void check_hashable(const Value& value);

// The value of a dictionary's key, or null. Throws Error for a key that cannot be one.
const Value* find(Run& run, const Dict& dict, const Value& key);

// What a loop over the value sees: a text's characters, a dictionary's keys. Throws Error where it is nothing to loop
// over. A generator is spent by it.
std::vector<Value> items_of(Run& run, const Value& value);

// str(value); what Python shows as an address is refused.
std::string to_text(Run& run, const Value& value);
// repr(value)
std::string to_repr(Run& run, const Value& value);

struct JsonStyle {
  bool is_ascii = false, sorts_keys = false;
  std::optional<std::string> indent;  // of one level
  std::string between_items = ", ", after_key = ": ";
};
// json.dumps(value). Throws Error for what JSON has not.
std::string to_json(Run& run, const Value& value, const JsonStyle& style);

std::string real_text(double value);  // repr() of a float

}  // namespace kvc::jinja
