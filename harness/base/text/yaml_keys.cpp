#include "text/yaml_keys.h"

#include <sstream>

#include "text/nearest.h"

namespace kvc {
namespace {

std::string shown(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

std::string range(const char* what, const std::string& min, const std::string& max) {
  if (min.empty() && max.empty()) return what;
  if (max.empty()) return concat(what, ", at least ", min);
  return concat(what, ", ", min.empty() ? "at most " : concat(min, " to "), max);
}

std::string range(int64_t min, int64_t max) {
  return range("integer", min == YamlKeys::kLeast ? "" : concat(min), max == YamlKeys::kMost ? "" : concat(max));
}

}  // namespace

void KeyReader::with(const YamlKey& key, const Read& read) {
  const auto look = [&] {
    const auto found = key.is_required ? std::optional(map_.required(key.name)) : map_.optional(key.name);
    if (found) read(*found);
  };
  if (errors_) {
    errors_->attempt(look);
  } else {
    look();
  }
}

void KeyReader::text(const YamlKey& key, std::string& value) {
  with(key, [&](const YamlValue& found) { value = found.string(); });
}

void KeyReader::texts(const YamlKey& key, std::vector<std::string>& value) {
  with(key, [&](const YamlValue& found) { value = found.strings(); });
}

void KeyReader::integer(const YamlKey& key, int64_t& value, int64_t min, int64_t max) {
  with(key, [&](const YamlValue& found) { value = found.integer(min, max); });
}

void KeyReader::integer(const YamlKey& key, std::optional<int64_t>& value, int64_t min, int64_t max) {
  with(key, [&](const YamlValue& found) { value = found.integer(min, max); });
}

void KeyReader::real(const YamlKey& key, double& value, double min, double max) {
  with(key, [&](const YamlValue& found) { value = found.real(min, max); });
}

void KeyReader::boolean(const YamlKey& key, bool& value) {
  with(key, [&](const YamlValue& found) { value = found.boolean(); });
}

void KeyReader::choice(const YamlKey& key, std::string& value, const std::vector<std::string>& allowed) {
  with(key, [&](const YamlValue& found) { value = found.choice(allowed); });
}

void KeyReader::map(const YamlKey& key, const Declare& keys, const Read& check) {
  with(key, [&](const YamlValue& found) {
    if (check) check(found);
    read_keys(found.map(), keys);
  });
}

void KeyReader::other(const YamlKey& key, const std::string&, const Read& read, const Declare&) { with(key, read); }

// Between keys of which one is wrong nothing can be said.
void KeyReader::then(const std::function<void(YamlMap&)>& check) {
  if (!errors_ || errors_->empty()) check(map_);
}

void read_keys(YamlMap map, const YamlKeys::Declare& keys) {
  ErrorList errors;
  KeyReader reader(map, &errors);
  if (errors.attempt([&] { keys(reader); })) errors.attempt([&] { map.reject_unknown(); });
  errors.throw_all();
}

void KeyList::add(const YamlKey& key, std::string form, const std::string& value) {
  const std::string otherwise = key.is_required ? "required" : key.otherwise ? key.otherwise : value;
  lines_.push_back({prefix_ + key.name, std::move(form), otherwise, key.help});
}

void KeyList::add_below(const YamlKey& key, const Declare& keys) {
  const auto prefix = prefix_;
  prefix_ += concat(key.name, ".");
  keys(*this);
  prefix_ = prefix;
}

void KeyList::text(const YamlKey& key, std::string& value) { add(key, "text", value); }

void KeyList::texts(const YamlKey& key, std::vector<std::string>& value) { add(key, "list of texts", join(value)); }

void KeyList::integer(const YamlKey& key, int64_t& value, int64_t min, int64_t max) {
  add(key, range(min, max), concat(value));
}

void KeyList::integer(const YamlKey& key, std::optional<int64_t>& value, int64_t min, int64_t max) {
  add(key, range(min, max), value ? concat(*value) : "");
}

void KeyList::real(const YamlKey& key, double& value, double min, double max) {
  add(key, range("number", shown(min), max == kMostReal ? "" : shown(max)), shown(value));
}

void KeyList::boolean(const YamlKey& key, bool& value) { add(key, "true or false", value ? "true" : "false"); }

void KeyList::choice(const YamlKey& key, std::string& value, const std::vector<std::string>& allowed) {
  add(key, join(allowed), value);
}

void KeyList::map(const YamlKey& key, const Declare& keys, const Read&) {
  add(key, "map", "");
  add_below(key, keys);
}

void KeyList::other(const YamlKey& key, const std::string& form, const Read&, const Declare& keys) {
  add(key, form, "");
  if (keys) add_below(key, keys);
}

}  // namespace kvc
