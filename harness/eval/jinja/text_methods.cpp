// The methods of str.
#include <algorithm>
#include <map>

#include "jinja/access.h"
#include "jinja/text_tools.h"
#include "text/utf8.h"

namespace kvc::jinja {
namespace {

using Kind = Sequence::Kind;

// A call of a method: the text, what it makes of it, its parameters.
struct Call {
  Run& run;
  const Text& self;
  const std::string& name;
  Parameters parameters;

  const std::string& text() const { return self.utf8; }
  // As safe as the text itself.
  Value make(std::string_view utf8) { return make_text(run, std::string(utf8), self.is_safe); }
  Value make_list(const std::vector<std::string_view>& parts, Kind kind = Kind::list) {
    std::vector<Value> values;
    for (const auto part : parts) values.push_back(make(part));
    return make_sequence(run, std::move(values), kind);
  }
};

Value strip_method(Call& call) {
  const auto chars = call.parameters.take("chars", Value());
  const auto side = call.name == "strip" ? Side::both : call.name == "lstrip" ? Side::left : Side::right;
  return call.make(trimmed(call.text(), chars.is_none() ? nullptr : &text_of(chars, "chars"), side));
}

Value case_method(Call& call) {
  const auto& text = call.text();
  call.run.take(8 * text.size());  // what ICU makes of it
  if (call.name == "upper") return call.make(upper(text));
  if (call.name == "lower") return call.make(lower(text));
  if (call.name == "capitalize") return call.make(capitalized(text));
  return call.make(call.name == "title" ? titled(text) : case_folded(text));
}

Value split_method(Call& call) {
  const auto separator = call.parameters.take("sep", Value());
  const auto most = call.parameters.whole("maxsplit", -1);
  return call.make_list(
      split(call.text(), separator.is_none() ? nullptr : &text_of(separator, "sep"), most, call.name == "rsplit"));
}

Value lines_method(Call& call) {
  KVC_CHECK(!call.parameters.truth("keepends", false), "str.splitlines(keepends=True) is not supported");
  return call.make_list(split_lines(call.text()));
}

// The byte range [first, end) that the arguments begin and end, in code points, select; nothing if begin is past the
// text's end.
std::optional<std::pair<size_t, size_t>> stretch(Call& call) {
  const auto optional = [&](const char* name) -> std::optional<int64_t> {
    const auto value = call.parameters.take(name, Value());
    return value.is_none() ? std::nullopt : std::optional(whole_of(value, name));
  };
  const auto begin = optional("start"), end = optional("end");
  if (!begin && !end) return std::pair<size_t, size_t>{0, call.text().size()};
  const auto size = static_cast<int64_t>(n_code_points(call.text()));
  if (begin && *begin > size) return std::nullopt;
  const auto range = range_of({begin, end, std::nullopt}, size);
  const auto byte_of = [&](int64_t n) {
    size_t at = 0;
    for (; n > 0; --n) at += next_code_point(call.text(), at).n_bytes;
    return at;
  };
  return std::pair{byte_of(range.begin), byte_of(range.begin + range.n)};
}

Value find_method(Call& call) {
  const auto wanted = text_of(call.parameters.require("sub"), "sub");
  const auto where = stretch(call);
  size_t found = std::string::npos;
  if (where) {
    const auto within = std::string_view(call.text()).substr(where->first, where->second - where->first);
    found = call.name.starts_with("r") ? find_last(within, wanted) : find_text(within, wanted);
    if (found != std::string::npos) found += where->first;
  }
  if (found != std::string::npos)
    return static_cast<int64_t>(n_code_points(std::string_view(call.text()).substr(0, found)));
  KVC_CHECK(call.name.ends_with("find"), "str.", call.name, ": the text does not hold ", in_quotes(wanted));
  return int64_t{-1};
}

Value count_method(Call& call) {
  const auto wanted = text_of(call.parameters.require("sub"), "sub");
  const auto where = stretch(call);
  if (!where) return int64_t{0};
  const auto within = std::string_view(call.text()).substr(where->first, where->second - where->first);
  if (wanted.empty()) return static_cast<int64_t>(n_code_points(within)) + 1;
  int64_t n = 0;
  for (auto at = find_text(within, wanted); at != std::string::npos; at = find_text(within, wanted, at + wanted.size()))
    ++n;
  return n;
}

Value affix_method(Call& call) {
  const auto wanted = call.parameters.require("prefix");
  const auto where = stretch(call);
  if (!where) return false;
  const auto within = std::string_view(call.text()).substr(where->first, where->second - where->first);
  const auto holds = [&](const Value& affix) {
    const auto& text = text_of(affix, concat("str.", call.name, ": what is looked for"));
    return call.name == "startswith" ? within.starts_with(text) : within.ends_with(text);
  };
  const auto* several = wanted.sequence();
  if (!several || several->kind != Kind::tuple) return holds(wanted);
  return std::any_of(several->items.begin(), several->items.end(), holds);
}

Value replace_method(Call& call) {
  const auto old = text_of(call.parameters.require("old"), "old"), by = text_of(call.parameters.require("new"), "new");
  return make_text(call.run, replaced(call.run, call.text(), old, by, call.parameters.whole("count", -1)));
}

Value join_method(Call& call) {
  Builder out(call.run);
  bool is_first = true;
  for (const auto& item : items_of(call.run, call.parameters.require("iterable"))) {
    if (!is_first) out << call.text();
    out << text_of(item, "str.join: an item");
    is_first = false;
  }
  return make_text(call.run, out.finish());
}

Value partition_method(Call& call) {
  const auto separator = text_of(call.parameters.require("sep"), "sep");
  KVC_CHECK(!separator.empty(), "the separator of a partition is empty");
  const std::string_view text = call.text();
  const bool from_right = call.name == "rpartition";
  const auto at = from_right ? find_last(text, separator) : find_text(text, separator);
  if (at == std::string_view::npos) {
    return from_right ? call.make_list({"", "", text}, Kind::tuple) : call.make_list({text, "", ""}, Kind::tuple);
  }
  return call.make_list({text.substr(0, at), separator, text.substr(at + separator.size())}, Kind::tuple);
}

Value remove_method(Call& call) {
  const auto affix = text_of(call.parameters.require("affix"), "affix");
  std::string_view text = call.text();
  if (call.name == "removeprefix" && text.starts_with(affix)) text.remove_prefix(affix.size());
  if (call.name == "removesuffix" && text.ends_with(affix)) text.remove_suffix(affix.size());
  return call.make(text);
}

Value fill_method(Call& call) {
  const auto width = call.parameters.whole("width", 0);
  auto fill = call.name == "zfill" ? "0" : call.parameters.text("fillchar", " ");
  KVC_CHECK(n_code_points(fill) == 1, "str.", call.name, ": fillchar is ", in_quotes(fill), ", expected one character");
  std::string_view text = call.text();
  const auto size = static_cast<int64_t>(n_code_points(text));
  const int64_t n = std::max<int64_t>(0, width - size);
  int64_t n_left = call.name == "ljust" ? 0 : n;
  if (call.name == "center") n_left = n / 2 + (n & width & 1);
  Builder out(call.run);
  if (call.name == "zfill" && n > 0 && (text.starts_with('-') || text.starts_with('+'))) {
    out << text.substr(0, 1);
    text.remove_prefix(1);
  }
  for (int64_t i = 0; i < n_left; ++i) out << fill;
  out << text;
  for (int64_t i = n_left; i < n; ++i) out << fill;
  return call.make(out.text());
}

Value property_method(Call& call) {
  call.run.take(4 * call.text().size());
  return has_property(call.text(), call.name);
}

using Method = Value (*)(Call&);

const std::map<std::string, Method, std::less<>>& methods() {
  static const std::map<std::string, Method, std::less<>> all = {
      {"strip", strip_method},          {"lstrip", strip_method},        {"rstrip", strip_method},
      {"upper", case_method},           {"lower", case_method},          {"capitalize", case_method},
      {"title", case_method},           {"casefold", case_method},       {"split", split_method},
      {"rsplit", split_method},         {"splitlines", lines_method},    {"find", find_method},
      {"rfind", find_method},           {"index", find_method},          {"rindex", find_method},
      {"count", count_method},          {"startswith", affix_method},    {"endswith", affix_method},
      {"replace", replace_method},      {"join", join_method},           {"partition", partition_method},
      {"rpartition", partition_method}, {"removeprefix", remove_method}, {"removesuffix", remove_method},
      {"zfill", fill_method},           {"ljust", fill_method},          {"rjust", fill_method},
      {"center", fill_method},          {"isspace", property_method},    {"isalpha", property_method},
      {"isdigit", property_method},     {"isdecimal", property_method},  {"isnumeric", property_method},
      {"isalnum", property_method},     {"isupper", property_method},    {"islower", property_method},
      {"isascii", property_method}};
  return all;
}

constexpr std::string_view kOtherMethods[] = {"encode",      "expandtabs", "format",    "format_map", "isidentifier",
                                              "isprintable", "istitle",    "maketrans", "swapcase",   "translate"};

}  // namespace

std::optional<Value> text_method(Run& run, const Value& text, const std::string& name) {
  const auto found = methods().find(name);
  if (found == methods().end()) {
    KVC_CHECK(std::find(std::begin(kOtherMethods), std::end(kOtherMethods), name) == std::end(kOtherMethods),
              "the attribute ", in_quotes(name), " of a value of type str is not supported");
    return std::nullopt;
  }
  const auto method = found->second;
  KVC_CHECK(!text.text()->is_safe || (method != replace_method && method != join_method), "str.", name,
            " of a text marked |safe is not supported");
  return make_callable("str." + name, [text, name, method](Run& run, Arguments& given) {
    run.step(static_cast<int64_t>(text.text()->utf8.size() >> 8));
    Call call{run, *text.text(), name, {"str." + name, given}};
    auto value = method(call);
    call.parameters.finish();
    return value;
  });
}

}  // namespace kvc::jinja
