#include "text/yaml_read.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/message.h"
#include "text/nearest.h"
#include "text/several_errors.h"
#include "text/utf8.h"

namespace kvc {
namespace {

constexpr size_t kMostBeneath = 4;  // files, each like the next

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_plain(const YAML::Node& node) { return node.Tag() != "!"; }  // yaml-cpp tags quoted scalars with "!"

// Plain words that YAML 1.1 or 1.2 readers take for a truth value or for nothing.
bool is_reserved_word(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  static const std::vector<std::string> kWords = {"true", "false", "yes", "no", "on", "off", "null", "~"};
  return contains(kWords, text);
}

template <class Number>
std::optional<Number> parse_number(const std::string& text) {
  Number value{};
  const char* first = text.data() + (!text.empty() && text[0] == '+');
  const auto [end, error] = std::from_chars(first, text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string range_text(const char* kind, const std::string& min, const std::string& max) {
  if (min.empty() && max.empty()) return kind;
  if (max.empty()) return concat(kind, " of at least ", min);
  if (min.empty()) return concat(kind, " of at most ", max);
  return concat(kind, " from ", min, " to ", max);
}

std::string child_name(const std::string& parent, const std::string& key) {
  return in_one_line(parent.empty() ? key : concat(parent, ".", key));
}

// yaml-cpp puts an empty value where the next token stands, which is another line: its key's place is better.
YAML::Mark mark_of(const YAML::Node& node, const YAML::Mark& otherwise) {
  return node.IsNull() || node.Mark().is_null() ? otherwise : node.Mark();
}

template <class Entry>
YamlValue child_of(const YamlValue& map, const Entry& entry) {
  return {map.file(), child_name(map.name(), entry.first.Scalar()), entry.second,
          mark_of(entry.second, entry.first.Mark())};
}

std::optional<YamlValue> find_in(const YamlValue& map, const std::string& key) {
  for (const auto& entry : map.node()) {
    if (entry.first.Scalar() == key) return child_of(map, entry);
  }
  return std::nullopt;
}

}  // namespace

std::string YamlValue::found() const {
  if (node_.IsMap()) return "a map";
  if (node_.IsSequence()) return "a sequence";
  if (!node_.IsScalar()) return "nothing";
  return in_quotes(node_.Scalar());
}

void YamlValue::fail_expected(const std::string& expected) const {
  fail(name_.empty() ? "the file" : name_, " is ", found(), ", expected ", expected);
}

std::string YamlValue::string() const {
  if (!node_.IsScalar()) fail_expected("a string");
  if (is_plain(node_) && is_reserved_word(node_.Scalar())) fail_expected("a string (write it in quotes)");
  return node_.Scalar();
}

int64_t YamlValue::integer(int64_t min, int64_t max) const {
  using Limits = std::numeric_limits<int64_t>;
  const auto value = node_.IsScalar() && is_plain(node_) ? parse_number<int64_t>(node_.Scalar()) : std::nullopt;
  if (!value || *value < min || *value > max) {
    fail_expected(
        range_text("an integer", min == Limits::min() ? "" : concat(min), max == Limits::max() ? "" : concat(max)));
  }
  return *value;
}

double YamlValue::real(double min, double max) const {
  using Limits = std::numeric_limits<double>;
  const auto value = node_.IsScalar() && is_plain(node_) ? parse_number<double>(node_.Scalar()) : std::nullopt;
  if (!value || !std::isfinite(*value) || *value < min || *value > max) {
    fail_expected(
        range_text("a number", min == Limits::lowest() ? "" : concat(min), max == Limits::max() ? "" : concat(max)));
  }
  return *value;
}

bool YamlValue::boolean() const {
  const bool plain = node_.IsScalar() && is_plain(node_);
  const std::string text = plain ? node_.Scalar() : "";
  if (text != "true" && text != "false") fail_expected("true or false");
  return text == "true";
}

std::string YamlValue::choice(const std::vector<std::string>& allowed) const {
  const std::string value = string();
  if (contains(allowed, value)) return value;
  const auto nearest = nearest_name(value, allowed);
  fail(name_, " is ", found(), nearest.empty() ? "" : " (did you mean '" + nearest + "'?)",
       ", allowed: ", join(allowed));
}

std::vector<YamlValue> YamlValue::sequence() const {
  if (!node_.IsSequence()) fail_expected("a sequence");
  std::vector<YamlValue> values;
  for (const auto& item : node_) {
    values.emplace_back(file_, concat(name_, "[", values.size(), "]"), item, mark_of(item, mark_));
  }
  return values;
}

std::vector<std::string> YamlValue::strings() const {
  std::vector<std::string> values;
  for (const auto& item : sequence()) values.push_back(item.string());
  return values;
}

YamlMap YamlValue::map() const {
  if (!node_.IsMap()) fail_expected("a map");
  return YamlMap(*this);
}

void YamlMap::lay_over(const char* what, const std::function<YamlValue(const YamlValue& like)>& load) {
  for (auto like = optional("like"); like; like = find_in(layers_.back(), "like")) {
    if (layers_.size() > kMostBeneath) like->fail("more than ", kMostBeneath, " ", what, " are like one another");
    layers_.push_back(load(*like).map().value());
  }
}

std::vector<std::pair<std::string, YamlValue>> YamlMap::entries() {
  std::vector<std::pair<std::string, YamlValue>> result;
  for (const auto& entry : value().node()) {
    asked_.push_back(entry.first.Scalar());
    result.emplace_back(asked_.back(), child_of(value(), entry));
  }
  return result;
}

std::optional<YamlValue> YamlMap::optional(const std::string& key) {
  if (!contains(asked_, key)) asked_.push_back(key);
  for (const auto& layer : layers_) {
    if (auto value = find_in(layer, key)) return value;
  }
  return std::nullopt;
}

YamlValue YamlMap::required(const std::string& key) {
  if (auto value = optional(key)) return *value;
  std::vector<std::string> unread;
  for (const auto& entry : value().node()) {
    const auto& name = entry.first.Scalar();
    if (!contains(asked_, name)) unread.push_back(name);
  }
  const auto nearest = nearest_name(key, unread);
  if (!nearest.empty()) misspelled_.push_back(nearest);
  value().fail("missing key '", key, "'", value().name().empty() ? "" : " in " + value().name(),
               nearest.empty() ? "" : " (is it '" + nearest + "'?)");
}

YAML::Node YamlMap::merged() const {
  YAML::Node all(YAML::NodeType::Map);
  for (const auto& layer : layers_) {
    for (const auto& entry : layer.node()) {
      if (!std::as_const(all)[entry.first.Scalar()]) all.force_insert(entry.first, entry.second);
    }
  }
  return all;
}

std::string YamlMap::optional_string(const std::string& key, const std::string& otherwise) {
  const auto value = optional(key);
  return value ? value->string() : otherwise;
}

int64_t YamlMap::optional_integer(const std::string& key, int64_t min, int64_t max, int64_t otherwise) {
  const auto value = optional(key);
  return value ? value->integer(min, max) : otherwise;
}

double YamlMap::optional_real(const std::string& key, double min, double max, double otherwise) {
  const auto value = optional(key);
  return value ? value->real(min, max) : otherwise;
}

bool YamlMap::optional_boolean(const std::string& key, bool otherwise) {
  const auto value = optional(key);
  return value ? value->boolean() : otherwise;
}

std::vector<std::string> YamlMap::optional_strings(const std::string& key) {
  const auto value = optional(key);
  return value ? value->strings() : std::vector<std::string>{};
}

std::string YamlMap::required_choice(const std::string& key, const std::vector<std::string>& allowed) {
  return required(key).choice(allowed);
}

std::string YamlMap::optional_choice(const std::string& key, const std::vector<std::string>& allowed,
                                     const std::string& otherwise) {
  const auto value = optional(key);
  return value ? value->choice(allowed) : otherwise;
}

void YamlMap::reject_unknown(bool beneath) const {
  ErrorList errors;
  for (const auto& layer : layers_) {
    for (const auto& entry : layer.node()) {
      const auto& key = entry.first.Scalar();
      if (contains(asked_, key) || contains(misspelled_, key)) continue;
      const YamlValue place(layer.file(), key, entry.first, entry.first.Mark());
      errors.attempt([&] { place.fail(unknown_name("key", key, asked_)); });
    }
    if (!beneath) break;
  }
  errors.throw_all();
}

}  // namespace kvc
