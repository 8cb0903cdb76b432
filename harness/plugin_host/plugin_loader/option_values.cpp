#include "plugin_loader/option_values.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "text/files.h"

namespace kvc {
namespace {

template <class T>
std::string range_text(T min, T max, bool open_ended) {
  return open_ended ? concat(min, " and more") : concat(min, " to ", max);
}

std::string integer_range(int64_t min, int64_t max) { return range_text(min, max, max == kNoUpperLimit); }
std::string real_range(double min, double max) { return range_text(min, max, false); }

template <class T>
std::string list_text(std::initializer_list<T> values) {
  std::string text;
  for (const auto& value : values) text += concat(text.empty() ? "" : ", ", value);
  return text;
}

bool is_one_of(const std::string& text, std::initializer_list<const char*> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

std::string file_or(std::initializer_list<const char*> words) {
  return words.size() == 0 ? "a file" : list_text(words) + ", or a file";
}

// {8, 4, 4} -> "8,4,4"
std::string joined(const std::vector<int64_t>& values) {
  std::string text;
  for (const int64_t value : values) text += concat(text.empty() ? "" : ",", value);
  return text;
}

// "8,4,4" -> {8, 4, 4}; nothing where a part is no integer.
std::vector<int64_t> split_integers(const std::string& text) {
  std::vector<int64_t> values;
  for (const char *at = text.data(), *end = at + text.size();;) {
    while (at < end && *at == ' ') ++at;
    int64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc()) return {};
    values.push_back(value);
    if (next == end) return values;
    if (*next != ',') return {};
    at = next + 1;
  }
}

}  // namespace

void OptionDescriber::integer(const char* name, int64_t& value, int64_t min, int64_t max, const char* help) {
  descriptions.push_back({name, "integer", value, integer_range(min, max), help});
}
void OptionDescriber::integer_of(const char* name, int64_t& value, std::initializer_list<int64_t> allowed,
                                 const char* help) {
  descriptions.push_back({name, "integer", value, list_text(allowed), help});
}
void OptionDescriber::real(const char* name, double& value, double min, double max, const char* help) {
  descriptions.push_back({name, "real", value, real_range(min, max), help});
}
void OptionDescriber::boolean(const char* name, bool& value, const char* help) {
  descriptions.push_back({name, "boolean", value, "true, false", help});
}
void OptionDescriber::choice(const char* name, std::string& value, std::initializer_list<const char*> allowed,
                             const char* help) {
  descriptions.push_back({name, "choice", value, list_text(allowed), help});
}
void OptionDescriber::integers_of(const char* name, std::vector<int64_t>& value, std::initializer_list<int64_t> allowed,
                                  const char* help) {
  descriptions.push_back({name, "integers", joined(value), list_text(allowed), help});
}

void OptionDescriber::file(const char* name, std::string& value, std::initializer_list<const char*> words,
                           const char* help) {
  descriptions.push_back({name, "file", value, file_or(words), help});
}

void OptionAssigner::check(bool passes, const char* name, const std::string& allowed) const {
  KVC_CHECK(passes, plugin_, ": option '", name, "' is ", given_.at(name).dump(), ", allowed: ", allowed);
}

void OptionAssigner::integer(const char* name, int64_t& value, int64_t min, int64_t max, const char*) {
  if (given_.contains(name)) {
    check(given_.at(name).is_number_integer(), name, "an integer, " + integer_range(min, max));
    const auto given = given_.at(name).get<int64_t>();
    check(given >= min && given <= max, name, integer_range(min, max));
    value = given;
  }
  resolved[name] = value;
}

void OptionAssigner::integer_of(const char* name, int64_t& value, std::initializer_list<int64_t> allowed, const char*) {
  if (given_.contains(name)) {
    check(given_.at(name).is_number_integer(), name, "an integer, " + list_text(allowed));
    const auto given = given_.at(name).get<int64_t>();
    check(std::find(allowed.begin(), allowed.end(), given) != allowed.end(), name, list_text(allowed));
    value = given;
  }
  resolved[name] = value;
}

void OptionAssigner::real(const char* name, double& value, double min, double max, const char*) {
  if (given_.contains(name)) {
    check(given_.at(name).is_number(), name, "a number, " + real_range(min, max));
    const auto given = given_.at(name).get<double>();
    check(given >= min && given <= max, name, real_range(min, max));
    value = given;
  }
  resolved[name] = value;
}

void OptionAssigner::boolean(const char* name, bool& value, const char*) {
  if (given_.contains(name)) {
    check(given_.at(name).is_boolean(), name, "true, false");
    value = given_.at(name).get<bool>();
  }
  resolved[name] = value;
}

void OptionAssigner::choice(const char* name, std::string& value, std::initializer_list<const char*> allowed,
                            const char*) {
  if (given_.contains(name)) {
    check(given_.at(name).is_string(), name, "one of the words " + list_text(allowed));
    const auto given = given_.at(name).get<std::string>();
    check(std::find(allowed.begin(), allowed.end(), given) != allowed.end(), name, list_text(allowed));
    value = given;
  }
  resolved[name] = value;
}

void OptionAssigner::integers_of(const char* name, std::vector<int64_t>& value, std::initializer_list<int64_t> allowed,
                                 const char*) {
  if (given_.contains(name)) {
    const auto& given = given_.at(name);
    const auto values = given.is_number_integer() ? std::vector<int64_t>{given.get<int64_t>()}
                        : given.is_string()       ? split_integers(given.get<std::string>())
                                                  : std::vector<int64_t>{};
    const auto is_allowed = [&](int64_t x) { return std::find(allowed.begin(), allowed.end(), x) != allowed.end(); };
    check(!values.empty() && std::all_of(values.begin(), values.end(), is_allowed), name,
          concat("one integer, or a text of several with commas, of ", list_text(allowed)));
    value = values;
  }
  resolved[name] = joined(value);
}

void OptionAssigner::file(const char* name, std::string& value, std::initializer_list<const char*> words, const char*) {
  if (given_.contains(name)) {
    check(given_.at(name).is_string(), name, file_or(words));
    const auto given = given_.at(name).get<std::string>();
    check(is_one_of(given, words) || std::filesystem::is_regular_file(given), name, file_or(words) + ": no such file");
    value = given;
  }
  resolved[name] = is_one_of(value, words) ? value : "sha256:" + sha256_file(value);
}

void OptionFilePlacer::file(const char* name, std::string&, std::initializer_list<const char*> words, const char*) {
  place(name, {words.begin(), words.end()});
}

void OptionFilePlacer::place(const std::string& name, const std::vector<std::string>& words) {
  if (!options_.contains(name) || !options_.at(name).is_string()) return;
  const auto given = options_.at(name).get<std::string>();
  if (std::find(words.begin(), words.end(), given) != words.end()) return;
  options_[name] = std::filesystem::absolute(folder_ / given).lexically_normal().string();
}

}  // namespace kvc
