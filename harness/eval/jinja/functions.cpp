#include "jinja/functions.h"

#include <algorithm>
#include <ctime>

#include "jinja/evaluator.h"
#include "text/message.h"
#include "text/utf8.h"

namespace kvc::jinja {

Value range_function(Run& run, Arguments& given) {
  constexpr int64_t kMost = 100'000;  // as the sandbox has it
  KVC_CHECK(given.named.empty() && !given.values.empty() && given.values.size() <= 3, "range has ", given.values.size(),
            " arguments, expected 1 to 3");
  std::vector<int64_t> numbers;
  for (const auto& value : given.values) numbers.push_back(whole_of(value, "range: an argument"));
  const int64_t begin = numbers.size() > 1 ? numbers[0] : 0, end = numbers.size() > 1 ? numbers[1] : numbers[0];
  const int64_t step = numbers.size() > 2 ? numbers[2] : 1;
  KVC_CHECK(step != 0, "range: the step is 0");
  const auto distance = step > 0 ? static_cast<uint64_t>(end) - static_cast<uint64_t>(begin)
                                 : static_cast<uint64_t>(begin) - static_cast<uint64_t>(end);
  const bool is_empty = step > 0 ? begin >= end : begin <= end;
  const auto stride = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  const uint64_t n = is_empty ? 0 : (distance - 1) / stride + 1;
  KVC_CHECK(n <= kMost, "range has ", n, " items, allowed: ", kMost);
  std::vector<Value> items;
  for (uint64_t i = 0; i < n; ++i) items.emplace_back(begin + static_cast<int64_t>(i) * step);
  auto range = make_sequence(run, std::move(items), Sequence::Kind::range);
  range.sequence()->in_words =
      step == 1 ? concat("range(", begin, ", ", end, ")") : concat("range(", begin, ", ", end, ", ", step, ")");
  return range;
}

std::vector<Dict::Entry> dict_entries(Run& run, Arguments& given) {
  std::vector<Dict::Entry> entries;
  KVC_CHECK(given.values.size() <= 1, "dict has ", given.values.size(),
            " arguments without a name, expected at most 1");
  if (!given.values.empty() && given.values[0].dict()) {
    entries = given.values[0].dict()->entries;
    run.take(entries.size() * sizeof(Dict::Entry));
  } else if (!given.values.empty()) {
    for (const auto& pair : items_of(run, given.values[0])) {
      const auto items = items_of(run, pair);
      KVC_CHECK(items.size() == 2, "dict: an item has ", items.size(), " values, expected 2");
      entries.emplace_back(items[0], items[1]);
    }
  }
  for (const auto& [name, value] : given.named) entries.emplace_back(make_text(run, name), value);
  return entries;
}

Value dict_function(Run& run, Arguments& given) { return make_dict(run, dict_entries(run, given)); }

Value raise_function(Run& run, Arguments& given) {
  Parameters parameters("raise_exception", given);
  const auto message = to_text(run, parameters.require("message"));
  parameters.finish();
  throw Error(concat("the template says: ", in_one_line(message)));
}

std::string format_day(Run& run, const Day& day, const std::string& format) {
  KVC_CHECK(format.size() <= 1000, "strftime_now: the format has ", format.size(), " bytes, allowed: 1000");
  std::string known;  // what Python, and not C, makes of a time without a zone
  for (size_t i = 0; i < format.size(); ++i) {
    const char next = format[i] == '%' && i + 1 < format.size() ? format[i + 1] : '\0';
    if (next == 'f') known += "000000";
    if (next != 'f' && next != 'z' && next != 'Z') known += format.substr(i, next ? 2 : 1);
    i += next != '\0';
  }
  std::tm time{};
  time.tm_year = day.year - 1900, time.tm_mon = day.month - 1, time.tm_mday = day.day;
  timegm(&time);  // the days of the week and of the year
  run.take(20'000);
  std::string text(20'000, '\0');
  text.resize(std::strftime(text.data(), text.size(), (known + ".").c_str(), &time));
  KVC_CHECK(!text.empty(), "strftime_now: the format ", in_quotes(format), " makes too long a text");
  text.pop_back();
  return text;
}

void set_member(Run& run, Dict& names, const std::string& name, const Value& value) {
  KVC_CHECK(!name.starts_with('_'), "the attribute ", in_quotes(name), " of a namespace begins with an underscore");
  for (auto& [known, old] : names.entries) {
    if (known.text()->utf8 == name) return void(old = value);
  }
  run.take(sizeof(Dict::Entry));
  names.entries.emplace_back(make_text(run, name), value);
}

Value Evaluator::namespace_(Arguments& given) {
  auto names = std::make_shared<Dict>();
  names->is_namespace = true;
  run_state_.take(sizeof(Dict));
  for (const auto& [key, value] : dict_entries(run_state_, given)) {
    set_member(run_state_, *names, text_of(key, "a name of a namespace"), value);
  }
  namespaces_.push_back(names);
  return names;
}

std::optional<Value> Evaluator::function_(const std::string& name) {
  if (const auto known = functions_.find(name); known != functions_.end()) return known->second;
  std::optional<Value> function;
  if (name == "range") function = make_callable(name, range_function);
  if (name == "dict") function = make_callable(name, dict_function);
  if (name == "raise_exception") function = make_callable(name, raise_function);
  if (name == "namespace") {
    function = make_callable(name, [this](Run&, Arguments& given) { return namespace_(given); });
  }
  if (name == "strftime_now") {
    function = make_callable(name, [this](Run& run, Arguments& given) {
      Parameters parameters("strftime_now", given);
      const auto format = parameters.text("format", "");
      parameters.finish();
      return make_text(run, format_day(run, given_.today, format));
    });
  }
  KVC_CHECK(function || (name != "lipsum" && name != "cycler" && name != "joiner"), "the function '", name,
            "' is not supported");
  if (function) functions_.emplace(name, *function);
  return function;
}

}  // namespace kvc::jinja
