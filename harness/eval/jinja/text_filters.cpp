// Filters of texts.
#include <algorithm>

#include "jinja/access.h"
#include "jinja/filters.h"
#include "jinja/text_tools.h"
#include "text/characters.h"
#include "text/utf8.h"

namespace kvc::jinja {
namespace {

// A method of str, called with what the filter was given.
Value by_method(Run& run, const Value& value, const std::string& name, Arguments given) {
  return text_method(run, soft_text(run, value), name)->callable()->call(run, given);
}

Value upper_filter(Run& run, const Value& value, Parameters&) { return by_method(run, value, "upper", {}); }
Value lower_filter(Run& run, const Value& value, Parameters&) { return by_method(run, value, "lower", {}); }
Value capitalize_filter(Run& run, const Value& value, Parameters&) { return by_method(run, value, "capitalize", {}); }

Value trim_filter(Run& run, const Value& value, Parameters& parameters) {
  return by_method(run, value, "strip", {{parameters.take("chars", Value())}, {}});
}

Value center_filter(Run& run, const Value& value, Parameters& parameters) {
  return by_method(run, value, "center", {{parameters.take("width", int64_t{80})}, {}});
}

// Words begin at the start of the text and after blanks, hyphens and opening brackets.
Value title_filter(Run& run, const Value& value, Parameters&) {
  const auto text = to_text(run, value);
  run.take(8 * text.size());
  const auto parts = [](char32_t c) { return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<'; };
  Builder out(run);
  for (size_t at = 0; at < text.size();) {
    const bool is_gap = parts(next_code_point(text, at).value);
    size_t end = at;
    while (end < text.size() && parts(next_code_point(text, end).value) == is_gap)
      end += next_code_point(text, end).n_bytes;
    const auto n_first = next_code_point(text, at).n_bytes;
    const auto first = text.substr(at, n_first), rest = text.substr(at + n_first, end - at - n_first);
    out << upper(first) << lower(rest);
    at = end;
  }
  return make_text(run, out.finish());
}

Value replace_filter(Run& run, const Value& value, Parameters& parameters) {
  const auto old = to_text(run, parameters.require("old")), by = to_text(run, parameters.require("new"));
  const auto most = parameters.take("count", Value());
  return make_text(run, replaced(run, to_text(run, value), old, by, most.is_none() ? -1 : whole_of(most, "count")));
}

Value indent_filter(Run& run, const Value& value, Parameters& parameters) {
  const auto width = parameters.take("width", int64_t{4});
  const bool first = parameters.truth("first", false), blank = parameters.truth("blank", false);
  Builder indention(run);
  if (width.text()) indention << width.text()->utf8;
  const int64_t n_blanks = width.text() ? 0 : whole_of(width, "width");
  for (int64_t i = 0; i < n_blanks; ++i) indention << " ";
  const auto text = text_of(value, "the filter 'indent'") + "\n";
  run.take(text.size());
  Builder out(run);
  bool is_first = true;
  for (const auto line : split_lines(text)) {
    if (!is_first) out << "\n";
    if (is_first ? first : (blank || !line.empty())) out << indention.text();
    out << line;
    is_first = false;
  }
  return make_text(run, out.finish(), value.text()->is_safe);
}

Value escape_filter(Run& run, const Value& value, Parameters&) {
  if (value.text() && value.text()->is_safe) return value;
  return make_text(run, escape_html(run, to_text(run, value)), true);
}

Value safe_filter(Run& run, const Value& value, Parameters&) { return make_text(run, to_text(run, value), true); }
Value string_filter(Run& run, const Value& value, Parameters&) { return soft_text(run, value); }

Value wordcount_filter(Run& run, const Value& value, Parameters&) {
  const auto text = to_text(run, value);
  int64_t n = 0;
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    const auto point = next_code_point(text, at);
    const bool is_part = is_word(point.value);
    n += is_part && !in_word;
    in_word = is_part;
    at += point.n_bytes;
  }
  return n;
}

// json.dumps' indent: a number of blanks or a text.
std::optional<std::string> indent_of(Run& run, const Value& indent) {
  if (indent.is_none()) return std::nullopt;
  if (indent.text()) return indent.text()->utf8;
  const auto n = std::max<int64_t>(0, whole_of(indent, "the filter 'tojson': indent"));
  run.take(static_cast<size_t>(n));
  return std::string(static_cast<size_t>(n), ' ');
}

Value tojson_filter(Run& run, const Value& value, Parameters& parameters) {
  JsonStyle style;
  style.is_ascii = parameters.truth("ensure_ascii", false);
  style.indent = indent_of(run, parameters.take("indent", Value()));
  if (style.indent) style.between_items = ",";
  const auto separators = parameters.take("separators", Value());
  if (!separators.is_none()) {
    const auto* pair = separators.indexed();
    KVC_CHECK(pair && pair->items.size() == 2, "the filter 'tojson': separators is of type ", type_name(separators),
              ", expected two texts");
    style.between_items = text_of(pair->items[0], "separators"),
    style.after_key = text_of(pair->items[1], "separators");
  }
  style.sorts_keys = parameters.truth("sort_keys", false);
  return make_text(run, to_json(run, value, style));
}

}  // namespace

const std::vector<NamedFilter>& text_filters() {
  static const std::vector<NamedFilter> all = {
      {"upper", upper_filter},     {"lower", lower_filter},        {"capitalize", capitalize_filter},
      {"title", title_filter},     {"trim", trim_filter},          {"center", center_filter},
      {"replace", replace_filter}, {"indent", indent_filter},      {"e", escape_filter},
      {"escape", escape_filter},   {"safe", safe_filter},          {"string", string_filter},
      {"tojson", tojson_filter},   {"wordcount", wordcount_filter}};
  return all;
}

}  // namespace kvc::jinja
