// Filters of lists and dictionaries.
#include <algorithm>

#include "jinja/access.h"
#include "jinja/filters.h"
#include "jinja/operators.h"
#include "jinja/text_tools.h"
#include "text/utf8.h"

namespace kvc::jinja {
namespace {

using Kind = Sequence::Kind;

// A text in lower case, where case does not count.
Value sort_key(Run& run, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.text()) return value;
  Arguments none;
  return text_method(run, value, "lower")->callable()->call(run, none);
}

Value join_filter(Run& run, const Value& value, Parameters& parameters) {
  const auto separator = to_text(run, parameters.take("d", make_text(run, "")));
  const auto path = parameters.take("attribute", Value());
  Builder out(run);
  bool is_first = true;
  for (const auto& one : items_of(run, value)) {
    if (!is_first) out << separator;
    out << to_text(run, path.is_none() ? one : inner_item(run, one, path));
    is_first = false;
  }
  return make_text(run, out.finish());
}

Value length_filter(Run&, const Value& value, Parameters&) {
  if (value.undefined()) return int64_t{0};
  if (value.text()) return static_cast<int64_t>(n_code_points(value.text()->utf8));
  if (value.dict()) return static_cast<int64_t>(value.dict()->entries.size());
  const auto* sequence = value.sequence();
  KVC_CHECK(sequence && sequence->kind != Kind::generator, "object of type '", type_name(value), "' has no length");
  return static_cast<int64_t>(sequence->items.size());
}

Value first_filter(Run& run, const Value& value, Parameters&) {
  auto* generator = value.sequence();
  if (generator && generator->kind == Kind::generator && !generator->is_spent && !generator->items.empty()) {
    const auto first = generator->items.front();  // the others stay
    generator->items.erase(generator->items.begin());
    run.step(static_cast<int64_t>(generator->items.size() >> 4));
    return first;
  }
  const auto items = items_of(run, value);
  return items.empty() ? make_undefined("there is no first item: the sequence is empty") : items.front();
}

Value last_filter(Run& run, const Value& value, Parameters&) {
  KVC_CHECK(!value.sequence() || value.sequence()->kind != Kind::generator, "'generator' object is not reversible");
  const auto items = items_of(run, value);
  return items.empty() ? make_undefined("there is no last item: the sequence is empty") : items.back();
}

Value list_filter(Run& run, const Value& value, Parameters&) { return make_sequence(run, items_of(run, value)); }

Value reverse_filter(Run& run, const Value& value, Parameters&) {
  if (value.text()) return slice(run, value, {std::nullopt, std::nullopt, -1});
  const bool is_generator = value.sequence() && value.sequence()->kind == Kind::generator;
  auto items = items_of(run, value);
  std::reverse(items.begin(), items.end());
  return make_sequence(run, std::move(items), is_generator ? Kind::list : Kind::generator);
}

Value items_filter(Run& run, const Value& value, Parameters&) {
  if (value.undefined()) return make_sequence(run, {}, Kind::generator);
  KVC_CHECK(value.dict(), "the filter 'items' got a value of type ", type_name(value), ", expected a mapping");
  return make_sequence(run, entries_of(run, *value.dict()), Kind::generator);
}

std::vector<Value> sorted(Run& run, std::vector<Value> items, bool reverse,
                          const std::function<Value(const Value&)>& key) {
  std::vector<std::pair<Value, Value>> keyed;
  for (auto& one : items) {
    run.take(2 * sizeof(Value));
    auto its_key = key(one);
    keyed.emplace_back(std::move(its_key), std::move(one));
  }
  const auto less = [&](const auto& a, const auto& b) { return is_less(run, a.first, b.first); };
  if (reverse) std::reverse(keyed.begin(), keyed.end());  // twice: equal ones stay in their order
  std::stable_sort(keyed.begin(), keyed.end(), less);
  if (reverse) std::reverse(keyed.begin(), keyed.end());
  items.clear();
  for (auto& [its_key, one] : keyed) items.push_back(std::move(one));
  return items;
}

Value sort_filter(Run& run, const Value& value, Parameters& parameters) {
  const bool reverse = parameters.truth("reverse", false), case_sensitive = parameters.truth("case_sensitive", false);
  const auto path = parameters.take("attribute", Value());
  std::vector<Value> paths{path};  // one in each part of "a,b"
  if (path.text()) {
    paths.clear();
    const std::string comma = ",";
    for (const auto part : split(path.text()->utf8, &comma, -1, false))
      paths.push_back(make_text(run, std::string(part)));
  }
  return make_sequence(
      run, sorted(run, items_of(run, value), reverse, [&](const Value& one) {
        std::vector<Value> keys;
        for (const auto& each : paths) {
          keys.push_back(sort_key(run, each.is_none() ? one : inner_item(run, one, each), case_sensitive));
        }
        return make_sequence(run, std::move(keys));
      }));
}

Value dictsort_filter(Run& run, const Value& value, Parameters& parameters) {
  const bool case_sensitive = parameters.truth("case_sensitive", false);
  const auto by = parameters.text("by", "key");
  const bool reverse = parameters.truth("reverse", false);
  KVC_CHECK(by == "key" || by == "value", "the filter 'dictsort': by is ", in_quotes(by),
            ", expected 'key' or 'value'");
  KVC_CHECK(value.dict(), "the filter 'dictsort' got a value of type ", type_name(value), ", expected a mapping");
  return make_sequence(run, sorted(run, entries_of(run, *value.dict()), reverse, [&](const Value& entry) {
                         return sort_key(run, entry.sequence()->items[by == "key" ? 0 : 1], case_sensitive);
                       }));
}

Value unique_filter(Run& run, const Value& value, Parameters& parameters) {
  const bool case_sensitive = parameters.truth("case_sensitive", false);
  const auto path = parameters.take("attribute", Value());
  std::vector<Value> kept, keys;
  for (const auto& one : items_of(run, value)) {
    const auto key = sort_key(run, path.is_none() ? one : inner_item(run, one, path), case_sensitive);
    check_hashable(key);
    if (std::any_of(keys.begin(), keys.end(), [&](const auto& seen) { return is_equal(run, seen, key); })) continue;
    keys.push_back(key), kept.push_back(one);
  }
  return make_sequence(run, std::move(kept), Kind::generator);
}

Value extreme(Run& run, const Value& value, Parameters& parameters, bool wants_least) {
  const bool case_sensitive = parameters.truth("case_sensitive", false);
  const auto path = parameters.take("attribute", Value());
  std::optional<Value> best, best_key;
  for (const auto& one : items_of(run, value)) {
    const auto key = sort_key(run, path.is_none() ? one : inner_item(run, one, path), case_sensitive);
    const bool is_better = !best || (wants_least ? is_less(run, key, *best_key) : is_less(run, *best_key, key));
    if (is_better) best = one, best_key = key;
  }
  return best.value_or(make_undefined("there is no item: the sequence is empty"));
}

Value min_filter(Run& run, const Value& value, Parameters& parameters) { return extreme(run, value, parameters, true); }
Value max_filter(Run& run, const Value& value, Parameters& parameters) {
  return extreme(run, value, parameters, false);
}

Value sum_filter(Run& run, const Value& value, Parameters& parameters) {
  const auto path = parameters.take("attribute", Value());
  auto sum = parameters.take("start", int64_t{0});
  KVC_CHECK(!sum.text(), "the filter 'sum' cannot begin with a text");
  for (const auto& one : items_of(run, value))
    sum = calculate(run, "+", sum, path.is_none() ? one : inner_item(run, one, path));
  return sum;
}

Value batch_filter(Run& run, const Value& value, Parameters& parameters) {
  const auto size = whole_of(parameters.require("linecount"), "linecount");
  const auto fill = parameters.take("fill_with", Value());
  std::vector<Value> rows, row;
  const auto all = items_of(run, value);
  for (const auto& one : all) {
    if (static_cast<int64_t>(row.size()) == size) rows.push_back(make_sequence(run, std::exchange(row, {})));
    row.push_back(one);
  }
  while (!row.empty() && !fill.is_none() && static_cast<int64_t>(row.size()) < size) {
    run.take(sizeof(Value));
    row.push_back(fill);
  }
  if (!row.empty()) rows.push_back(make_sequence(run, std::move(row)));
  return make_sequence(run, std::move(rows), Kind::generator);
}

// Of no items, where Jinja does not look at the arguments.
Value nothing(Run& run, Parameters& parameters) {
  parameters.rest(), parameters.rest_named();
  return make_sequence(run, {}, Kind::generator);
}

Value map_filter(Run& run, const Value& value, Parameters& parameters) {
  std::vector<Value> mapped;
  if (!is_true(value)) return nothing(run, parameters);
  const auto path = parameters.by_name("attribute"), absent = parameters.by_name("default");
  if (path) {
    for (const auto& one : items_of(run, value)) {
      auto inner = inner_item(run, one, *path);
      mapped.push_back(inner.undefined() && absent && !absent->is_none() ? *absent : std::move(inner));
    }
  } else {
    const auto name = text_of(parameters.require("filter"), "the filter 'map': what is applied");
    const Arguments given{parameters.rest(), parameters.rest_named()};
    for (const auto& one : items_of(run, value)) mapped.push_back(apply_filter(run, name, one, given));
  }
  return make_sequence(run, std::move(mapped), Kind::generator);
}

Value select(Run& run, const Value& value, Parameters& parameters, bool by_attribute, bool wanted) {
  if (!is_true(value)) return nothing(run, parameters);
  std::vector<Value> kept;
  const auto path = by_attribute ? parameters.require("attribute") : Value();
  const auto test = parameters.find("test");
  const Arguments given{parameters.rest(), parameters.rest_named()};
  for (const auto& one : items_of(run, value)) {
    const auto tested = by_attribute ? inner_item(run, one, path) : one;
    const bool holds = test ? apply_test(run, text_of(*test, "the name of a test"), tested, given) : is_true(tested);
    if (holds == wanted) kept.push_back(one);
  }
  return make_sequence(run, std::move(kept), Kind::generator);
}

Value select_filter(Run& run, const Value& v, Parameters& p) { return select(run, v, p, false, true); }
Value reject_filter(Run& run, const Value& v, Parameters& p) { return select(run, v, p, false, false); }
Value selectattr_filter(Run& run, const Value& v, Parameters& p) { return select(run, v, p, true, true); }
Value rejectattr_filter(Run& run, const Value& v, Parameters& p) { return select(run, v, p, true, false); }

}  // namespace

const std::vector<NamedFilter>& list_filters() {
  static const std::vector<NamedFilter> all = {{"join", join_filter},
                                               {"length", length_filter},
                                               {"count", length_filter},
                                               {"first", first_filter},
                                               {"last", last_filter},
                                               {"list", list_filter},
                                               {"reverse", reverse_filter},
                                               {"items", items_filter},
                                               {"sort", sort_filter},
                                               {"dictsort", dictsort_filter},
                                               {"unique", unique_filter},
                                               {"min", min_filter},
                                               {"max", max_filter},
                                               {"sum", sum_filter},
                                               {"batch", batch_filter},
                                               {"map", map_filter},
                                               {"select", select_filter},
                                               {"reject", reject_filter},
                                               {"selectattr", selectattr_filter},
                                               {"rejectattr", rejectattr_filter},
                                               {"slice", nullptr}};
  return all;
}

}  // namespace kvc::jinja
