#include "model/json_reader.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "kvc/check.h"
#include "text/files.h"
#include "text/utf8.h"

namespace kvc {
namespace {

constexpr int kMaxDepth = 64;
constexpr uintmax_t kMaxFileBytes = uintmax_t{512} << 20;  // the largest tokenizers have a tenth of it

// What the parser says, without the text it stopped at.
std::string reason(std::string_view what) {
  what = what.substr(what.find("] ") == what.npos ? 0 : what.find("] ") + 2);
  return std::string(what.substr(0, std::min(what.find("; last read:"), size_t{160})));
}

// A field's name as it is, or in quotes where it is no plain word.
std::string shown(const std::string& name) {
  const auto is_plain = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  };
  return !name.empty() && name.size() <= 60 && std::all_of(name.begin(), name.end(), is_plain) ? name : in_quotes(name);
}

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
      KVC_CHECK(seen_.back().insert(key).second, file_, ": duplicate key ", in_quotes(key));
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
    throw Error(concat(file, ": byte ", error.byte, ": not valid JSON: ", reason(error.what())));
  } catch (const nlohmann::json::exception& error) {
    throw Error(concat(file, ": not valid JSON: ", reason(error.what())));
  }
}

nlohmann::json read_json(const std::filesystem::path& path) {
  std::error_code unreadable;  // reading the file says why
  const auto type = std::filesystem::status(path, unreadable).type();
  using std::filesystem::file_type;
  KVC_CHECK(type == file_type::regular || type == file_type::not_found || type == file_type::none, "cannot read '",
            path.string(), "': not a regular file");
  const auto n_bytes = std::filesystem::file_size(path, unreadable);
  KVC_CHECK(unreadable || n_bytes <= kMaxFileBytes, path.string(), ": ", n_bytes, " bytes of JSON, at most ",
            kMaxFileBytes);
  const auto text = read_file(path);
  KVC_CHECK(!text.starts_with(kLfsPointer), path.string(), kIsLfsPointer);
  return parse_json(text, path.string());
}

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
  KVC_CHECK(found != value_->end(), where_, ": field ", in_quotes(name), " is missing");
  return *found;
}

int64_t JsonObject::integer(const std::string& name, int64_t min, int64_t max) const {
  const auto& value = at(name);
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX}) &&
                    value.get<int64_t>() >= min && value.get<int64_t>() <= max;
  KVC_CHECK(fits, where_, ": ", shown(name), " is ", brief(value), ", expected an integer from ", min, " to ", max);
  return value.get<int64_t>();
}

double JsonObject::number(const std::string& name, double min, double max) const {
  const auto& value = at(name);
  KVC_CHECK(value.is_number() && value.get<double>() >= min && value.get<double>() <= max, where_, ": ", shown(name),
            " is ", brief(value), ", expected a number from ", min, " to ", max);
  return value.get<double>();
}

bool JsonObject::boolean(const std::string& name) const {
  const auto& value = at(name);
  KVC_CHECK(value.is_boolean(), where_, ": ", shown(name), " is ", brief(value), ", expected true or false");
  return value.get<bool>();
}

bool JsonObject::boolean(const std::string& name, bool absent) const { return has(name) ? boolean(name) : absent; }

std::string JsonObject::text(const std::string& name) const {
  const auto& value = at(name);
  KVC_CHECK(value.is_string(), where_, ": ", shown(name), " is ", brief(value), ", expected a string");
  return value.get<std::string>();
}

std::string JsonObject::text(const std::string& name, const std::string& absent) const {
  return has(name) ? text(name) : absent;
}

const nlohmann::json& JsonObject::array(const std::string& name) const {
  const auto& value = at(name);
  KVC_CHECK(value.is_array(), where_, ": ", shown(name), " is ", brief(value), ", expected an array");
  return value;
}

std::string JsonObject::where(const std::string& name) const { return where_ + ": " + shown(name); }

JsonObject JsonObject::object(const std::string& name) const { return {at(name), where(name)}; }

}  // namespace kvc
