#include "model/json_reader.h"

#include <unordered_set>
#include <vector>

#include "kvc/check.h"
#include "text/files.h"

namespace kvc {
namespace {

constexpr int kMaxDepth = 64;

// Sees each key once and refuses the second of the same name within one object.
class DuplicateCheck {
 public:
  explicit DuplicateCheck(const std::string& file) : file_(file) {}

  bool operator()(int depth, nlohmann::json::parse_event_t event, const nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    KVC_CHECK(depth <= kMaxDepth, file_, ": JSON nested deeper than ", kMaxDepth, " levels");
    if (event == Event::object_start) {
      seen_.emplace_back();
    } else if (event == Event::object_end) {
      seen_.pop_back();
    } else if (event == Event::key) {
      const auto& key = value.get_ref<const std::string&>();
      KVC_CHECK(seen_.back().insert(key).second, file_, ": duplicate key '", key, "'");
    }
    return true;
  }

 private:
  const std::string& file_;
  std::vector<std::unordered_set<std::string>> seen_;  // one per open object
};

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& file) {
  DuplicateCheck check(file);
  try {
    return nlohmann::json::parse(text.begin(), text.end(),
                                 [&check](int depth, nlohmann::json::parse_event_t event, nlohmann::json& value) {
                                   return check(depth, event, value);
                                 });
  } catch (const nlohmann::json::parse_error& error) {
    throw Error(concat(file, ": byte ", error.byte, ": not valid JSON: ", error.what()));
  } catch (const nlohmann::json::exception& error) {
    throw Error(concat(file, ": not valid JSON: ", error.what()));
  }
}

nlohmann::json read_json(const std::filesystem::path& path) { return parse_json(read_file(path), path.string()); }

std::string brief(const nlohmann::json& value) {
  auto text = value.dump(-1, ' ', true);  // ASCII only, so that a cut never splits a character
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

JsonObject::JsonObject(const nlohmann::json& value, std::string where) : value_(&value), where_(std::move(where)) {
  KVC_CHECK(value.is_object(), where_, ": ", brief(value), ", expected an object");
}

bool JsonObject::has(const std::string& name) const {
  const auto found = value_->find(name);
  return found != value_->end() && !found->is_null();
}

const nlohmann::json& JsonObject::at(const std::string& name) const {
  const auto found = value_->find(name);
  KVC_CHECK(found != value_->end(), where_, ": field '", name, "' is missing");
  return *found;
}

int64_t JsonObject::integer(const std::string& name, int64_t min, int64_t max) const {
  const auto& value = at(name);
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX}) &&
                    value.get<int64_t>() >= min && value.get<int64_t>() <= max;
  KVC_CHECK(fits, where_, ": ", name, " is ", brief(value), ", expected an integer from ", min, " to ", max);
  return value.get<int64_t>();
}

double JsonObject::number(const std::string& name, double min, double max) const {
  const auto& value = at(name);
  KVC_CHECK(value.is_number() && value.get<double>() >= min && value.get<double>() <= max, where_, ": ", name, " is ",
            brief(value), ", expected a number from ", min, " to ", max);
  return value.get<double>();
}

bool JsonObject::boolean(const std::string& name) const {
  const auto& value = at(name);
  KVC_CHECK(value.is_boolean(), where_, ": ", name, " is ", brief(value), ", expected true or false");
  return value.get<bool>();
}

bool JsonObject::boolean(const std::string& name, bool absent) const { return has(name) ? boolean(name) : absent; }

std::string JsonObject::text(const std::string& name) const {
  const auto& value = at(name);
  KVC_CHECK(value.is_string(), where_, ": ", name, " is ", brief(value), ", expected a string");
  return value.get<std::string>();
}

std::string JsonObject::text(const std::string& name, const std::string& absent) const {
  return has(name) ? text(name) : absent;
}

const nlohmann::json& JsonObject::array(const std::string& name) const {
  const auto& value = at(name);
  KVC_CHECK(value.is_array(), where_, ": ", name, " is ", brief(value), ", expected an array");
  return value;
}

JsonObject JsonObject::object(const std::string& name) const { return {at(name), where(name)}; }

}  // namespace kvc
