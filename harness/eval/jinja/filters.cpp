#include "jinja/filters.h"

#include <algorithm>

#include "jinja/access.h"
#include "text/nearest.h"

namespace kvc::jinja {
namespace {

std::vector<NamedFilter> all_filters() {
  std::vector<NamedFilter> all;
  for (const auto* part : {&text_filters(), &list_filters(), &plain_filters()})
    all.insert(all.end(), part->begin(), part->end());
  for (const char* name : {"attr", "filesizeformat", "forceescape", "format", "groupby", "pprint", "random",
                           "striptags", "truncate", "urlencode", "urlize", "wordwrap", "xmlattr"}) {
    all.push_back({name, nullptr});
  }
  return all;
}

const std::vector<NamedFilter>& filters() {
  static const auto all = all_filters();
  return all;
}

}  // namespace

const NamedFilter* find_filter(std::string_view name) {
  const auto& all = filters();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return name == one.name; });
  return found == all.end() ? nullptr : &*found;
}

std::vector<std::string> filter_names() {
  std::vector<std::string> names;
  for (const auto& one : filters()) {
    if (one.filter) names.emplace_back(one.name);
  }
  return names;
}

Value apply_filter(Run& run, const std::string& name, const Value& value, Arguments given) {
  run.step();
  const auto* known = find_filter(name);
  KVC_CHECK(known, unknown_name("filter", name, filter_names()));
  KVC_CHECK(known->filter, "the filter '", name, "' is not supported");
  Parameters parameters(concat("the filter '", name, "'"), given);
  auto result = known->filter(run, value, parameters);
  parameters.finish();
  return result;
}

bool apply_test(Run& run, const std::string& name, const Value& value, Arguments given) {
  run.step();
  const auto* known = find_test(name);
  KVC_CHECK(known, unknown_name("test", name, test_names()));
  KVC_CHECK(known->test, "the test '", name, "' is not supported");
  Parameters parameters(concat("the test '", name, "'"), given);
  const bool result = known->test(run, value, parameters);
  parameters.finish();
  return result;
}

Value soft_text(Run& run, const Value& value) { return value.text() ? value : make_text(run, to_text(run, value)); }

Value inner_item(Run& run, Value value, const Value& path) {
  if (!path.text()) return item(run, value, path);
  std::string_view rest = path.text()->utf8;
  while (true) {
    const auto dot = rest.find('.');
    const std::string part(rest.substr(0, dot));
    const bool is_index =
        !part.empty() && part.size() < 18 && part.find_first_not_of("0123456789") == std::string::npos;
    value = item(run, value, is_index ? Value(int64_t{std::stoll(part)}) : make_text(run, part));
    if (dot == std::string_view::npos) return value;
    rest.remove_prefix(dot + 1);
  }
}

}  // namespace kvc::jinja
