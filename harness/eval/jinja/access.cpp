#include "jinja/access.h"

#include <algorithm>

#include "text/utf8.h"

namespace kvc::jinja {
namespace {

using Kind = Sequence::Kind;

bool is_one_of(const std::vector<std::string_view>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Attributes that Python's values have and these have not.
const std::vector<std::string_view> kOfDicts = {"clear", "copy", "fromkeys", "pop", "popitem", "setdefault", "update"};
const std::vector<std::string_view> kOfLists = {"append", "clear",  "copy",    "extend", "insert",
                                                "pop",    "remove", "reverse", "sort"};
const std::vector<std::string_view> kOfNumbers = {
    "as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator", "from_bytes", "fromhex", "hex", "imag",
    "is_integer",       "numerator", "real",       "to_bytes"};
const std::vector<std::string_view> kOfGenerators = {"close", "gi_code", "gi_frame", "gi_running", "send", "throw"};
const std::vector<std::string_view> kOfViews = {"isdisjoint", "mapping"};
const std::vector<std::string_view> kOfRanges = {"start", "step", "stop"};
const std::vector<std::string_view> kOfFunctions = {"arguments", "caller", "catch_kwargs", "catch_varargs", "name"};

Value dict_get(Run& run, const Dict& dict, Arguments& given) {
  Parameters parameters("dict.get", given);
  const auto key = parameters.require("key");
  auto otherwise = parameters.take("default", Value());
  parameters.finish();
  const auto* found = find(run, dict, key);
  return found ? *found : otherwise;
}

std::optional<Value> dict_method(const Value& object, const std::string& name) {
  if (name == "get") {
    return make_callable(
        "dict.get", [object](Run& run, Arguments& given) { return dict_get(run, *object.dict(), given); }, object);
  }
  if (name != "items" && name != "keys" && name != "values") return std::nullopt;
  return make_callable(
      "dict." + name,
      [object, name](Run& run, Arguments& given) {
        Parameters("dict." + name, given).finish();
        if (name == "items") return make_sequence(run, entries_of(run, *object.dict()), Kind::items);
        std::vector<Value> values;
        for (const auto& [key, value] : object.dict()->entries) values.push_back(name == "keys" ? key : value);
        return make_sequence(run, std::move(values), name == "keys" ? Kind::keys : Kind::values);
      },
      object);
}

std::optional<Value> sequence_method(const Value& object, const std::string& name) {
  if (name != "count" && name != "index") return std::nullopt;
  return make_callable(
      "list." + name,
      [object, name](Run& run, Arguments& given) -> Value {
        Parameters parameters("list." + name, given);
        const auto wanted = parameters.require("value");
        parameters.finish();
        const auto& items = object.sequence()->items;
        const auto is_wanted = [&](const auto& one) { return is_equal(run, one, wanted); };
        if (name == "count") return int64_t{std::count_if(items.begin(), items.end(), is_wanted)};
        const auto found = std::find_if(items.begin(), items.end(), is_wanted);
        KVC_CHECK(found != items.end(), "list.index: the value is not in the list");
        return int64_t{found - items.begin()};
      },
      object);
}

[[noreturn]] void refuse(const Value& object, const std::string& name) {
  throw Error(
      concat("the attribute ", in_quotes(name), " of a value of type ", type_name(object), " is not supported"));
}

// What Python's getattr finds; the key `name` of a dictionary is none of it.
std::optional<Value> own_attribute(Run& run, const Value& object, const std::string& name) {
  if (name.starts_with("__")) refuse(object, name);
  if (object.text()) return text_method(run, object, name);
  const std::vector<std::string_view>* refused = nullptr;
  std::optional<Value> found;
  if (object.dict()) {
    found = dict_method(object, name), refused = &kOfDicts;
  } else if (const auto* sequence = object.sequence()) {
    if (object.indexed()) found = sequence_method(object, name);
    refused = sequence->kind == Kind::list        ? &kOfLists
              : sequence->kind == Kind::range     ? &kOfRanges
              : sequence->kind == Kind::generator ? &kOfGenerators
              : sequence->kind == Kind::tuple     ? nullptr
                                                  : &kOfViews;
  } else if (object.is_number()) {
    refused = &kOfNumbers;
  } else if (object.callable()) {
    refused = &kOfFunctions;
  } else if (const auto* names = object.name_space()) {
    for (const auto& [key, value] : names->entries) {
      if (key.text()->utf8 == name) return value;
    }
  } else if (object.loop()) {
    bool is_known = true;
    auto value = loop_attribute(run, object.shared_loop(), name, is_known);
    if (is_known) return value;
  }
  if (!found && refused && is_one_of(*refused, name)) refuse(object, name);
  return found;
}

// The items of a slice, or of an index; nothing where it is none of the object's.
std::optional<Value> own_item(Run& run, const Value& object, const Value& key) {
  if (const auto* dict = object.dict()) {
    if (key.sequence() && key.sequence()->kind == Kind::list) return std::nullopt;
    if (key.dict()) return std::nullopt;
    const auto* found = find(run, *dict, key);
    return found ? std::optional(*found) : std::nullopt;
  }
  auto index = key.whole();
  if (!index) return std::nullopt;
  if (const auto* list = object.indexed()) {
    const auto size = static_cast<int64_t>(list->items.size());
    if (*index < 0) *index += size;
    return *index >= 0 && *index < size ? std::optional(list->items[static_cast<size_t>(*index)]) : std::nullopt;
  }
  if (!object.text()) return std::nullopt;
  if (*index < 0 && n_code_points(object.text()->utf8) < 0 - static_cast<uint64_t>(*index)) return std::nullopt;
  const auto end = *index == -1 ? std::nullopt : std::optional(*index + 1);
  auto character = slice(run, object, {index, end, std::nullopt});
  return character.text()->utf8.empty() ? std::nullopt : std::optional(character);
}

Value missing(const Value& object, const std::string& what) {
  return make_undefined(concat("a value of type ", type_name(object), " has no ", what));
}

}  // namespace

std::vector<Value> entries_of(Run& run, const Dict& dict) {
  std::vector<Value> entries;
  for (const auto& [key, value] : dict.entries) entries.push_back(make_sequence(run, {key, value}, Kind::tuple));
  return entries;
}

Value attribute(Run& run, const Value& object, const std::string& name) {
  KVC_CHECK(!object.undefined(), *object.undefined()->why);
  if (auto own = own_attribute(run, object, name)) return *own;
  if (object.dict()) {
    for (const auto& [key, value] : object.dict()->entries) {
      run.step();
      if (key.text() && key.text()->utf8 == name) return value;
    }
  }
  return missing(object, concat("attribute ", in_quotes(name)));
}

Value item(Run& run, const Value& object, const Value& key) {
  KVC_CHECK(!object.undefined(), *object.undefined()->why);
  if (auto own = own_item(run, object, key)) return *own;
  if (!key.text()) return missing(object, concat("item ", in_quotes(to_repr(run, key))));
  if (auto own = own_attribute(run, object, key.text()->utf8)) return *own;
  return missing(object, concat("attribute ", in_quotes(key.text()->utf8)));
}

SliceRange range_of(const Slice& slice, int64_t size) {
  const int64_t step = slice.step.value_or(1);
  KVC_CHECK(step != 0, "a slice's step is 0");
  const int64_t lower = step < 0 ? -1 : 0, upper = step < 0 ? size - 1 : size;
  const auto within = [&](const std::optional<int64_t>& index, int64_t absent) {
    if (!index) return absent;
    return std::clamp(*index < 0 ? *index + size : *index, lower, upper);
  };
  const int64_t begin = within(slice.begin, step < 0 ? upper : lower),
                end = within(slice.end, step < 0 ? lower : upper);
  int64_t n = 0;
  if (step > 0 && begin < end) n = (end - begin - 1) / step + 1;
  if (step < 0 && begin > end)
    n = static_cast<int64_t>(static_cast<uint64_t>(begin - end - 1) / (0 - static_cast<uint64_t>(step))) + 1;
  return {begin, n, step};
}

Value slice(Run& run, const Value& object, const Slice& slice) {
  KVC_CHECK(!object.undefined(), *object.undefined()->why);
  if (const auto* list = object.indexed()) {
    KVC_CHECK(list->kind != Kind::range, "a slice of a range is not supported");
    const auto range = range_of(slice, static_cast<int64_t>(list->items.size()));
    std::vector<Value> items;
    for (int64_t i = 0; i < range.n; ++i)
      items.push_back(list->items[static_cast<size_t>(range.begin + i * range.step)]);
    return make_sequence(run, std::move(items), list->kind);
  }
  const auto* text = object.text();
  KVC_CHECK(text, "a value of type ", type_name(object), " has no slices");
  const auto& utf8 = text->utf8;
  run.step(static_cast<int64_t>(utf8.size() >> 8));
  const auto range = range_of(slice, static_cast<int64_t>(n_code_points(utf8)));
  if (range.step == 1) {
    size_t begin = 0;
    for (int64_t i = 0; i < range.begin && begin < utf8.size(); ++i) begin += next_code_point(utf8, begin).n_bytes;
    size_t end = begin;
    for (int64_t i = 0; i < range.n; ++i) end += next_code_point(utf8, end).n_bytes;
    return make_text(run, utf8.substr(begin, end - begin), text->is_safe);
  }
  run.take(4 * utf8.size());
  const auto points = to_code_points(utf8);
  std::u32string chosen;
  for (int64_t i = 0; i < range.n; ++i) chosen += points[static_cast<size_t>(range.begin + i * range.step)];
  return make_text(run, to_utf8(chosen), text->is_safe);
}

Value loop_attribute(Run& run, const std::shared_ptr<Loop>& loop, const std::string& name, bool& is_known) {
  const auto at = static_cast<int64_t>(loop->at), size = static_cast<int64_t>(loop->items.size());
  const auto neighbour = [&](int64_t index, const char* which) {
    return index >= 0 && index < size ? loop->items[static_cast<size_t>(index)]
                                      : make_undefined(concat("there is no ", which, " item"));
  };
  if (name == "index") return at + 1;
  if (name == "index0") return at;
  if (name == "revindex") return size - at;
  if (name == "revindex0") return size - at - 1;
  if (name == "first") return at == 0;
  if (name == "last") return at + 1 == size;
  if (name == "length") return size;
  if (name == "depth") return int64_t{1};
  if (name == "depth0") return int64_t{0};
  if (name == "previtem") return neighbour(at - 1, "previous");
  if (name == "nextitem") return neighbour(at + 1, "next");
  if (name == "cycle") {
    return make_callable("loop.cycle", [at](Run&, Arguments& given) {
      KVC_CHECK(!given.values.empty() && given.named.empty(), "loop.cycle has nothing to choose from");
      return given.values[static_cast<size_t>(at) % given.values.size()];
    });
  }
  if (name == "changed") {
    return make_callable(
        "loop.changed",
        [loop](Run& run, Arguments& given) -> Value {
          const bool is_same =
              loop->has_seen &&
              std::equal(loop->last_seen.begin(), loop->last_seen.end(), given.values.begin(), given.values.end(),
                         [&](const auto& a, const auto& b) { return is_equal(run, a, b); });
          loop->last_seen = given.values, loop->has_seen = true;
          return !is_same;
        },
        loop);
  }
  is_known = false;
  return {};
}

}  // namespace kvc::jinja
