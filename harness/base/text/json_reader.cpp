#include "text/json_reader.h"

#include <algorithm>
#include <vector>

#include "kvc/check.h"
#include "text/json.h"
#include "text/model_folder.h"
#include "text/utf8.h"

namespace kvc {
namespace {

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

// Builds the value. The library's own parser with a callback looks at all members of an object again after each member
// that is an object: a header of 100000 tensors took minutes.
class StrictBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit StrictBuilder(const std::string& file) : file_(file) {}
  nlohmann::json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // not of JSON
  bool start_object(std::size_t) override { return open(nlohmann::json::object()); }
  bool start_array(std::size_t) override { return open(nlohmann::json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    const auto [member, is_new] = open_.back()->get_ref<nlohmann::json::object_t&>().try_emplace(name);
    KVC_CHECK(is_new, file_, ": duplicate key ", in_quotes(name));
    member_ = &member->second;
    return true;
  }
  bool parse_error(std::size_t byte, const std::string&, const nlohmann::json::exception& error) override {
    throw Error(concat(file_, ": byte ", byte, ": not valid JSON: ", reason(error.what())));
  }

 private:
  nlohmann::json* place(nlohmann::json value) {
    nlohmann::json* here = &root_;
    if (!open_.empty() && open_.back()->is_array()) {
      here = &open_.back()->get_ref<nlohmann::json::array_t&>().emplace_back();
    } else if (!open_.empty()) {
      here = member_;
    }
    *here = std::move(value);
    return here;
  }
  bool add(nlohmann::json value) {
    place(std::move(value));
    return true;
  }
  bool open(nlohmann::json empty) {
    KVC_CHECK(open_.size() < kMaxJsonDepth, file_, ": JSON nested deeper than ", kMaxJsonDepth, " levels");
    open_.push_back(place(std::move(empty)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& file_;
  nlohmann::json root_;
  std::vector<nlohmann::json*> open_;  // objects and arrays from the root on; each stays where it is while it is open
  nlohmann::json* member_ = nullptr;   // of the innermost object, its value to come
};

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& file) {
  StrictBuilder builder(file);
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

nlohmann::json read_json(const std::filesystem::path& path) { return parse_json(read_model_file(path), path.string()); }

std::string brief(const nlohmann::json& value) {
  auto text =
      value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);  // ASCII only: a cut splits no character
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

JsonObject::JsonObject(const nlohmann::json& value, std::string where) : value_(&value), where_(std::move(where)) {
  KVC_CHECK(value.is_object(), where_, ": ", brief(value), ", expected an object");
}

bool JsonObject::has(const std::string& name) const {
  if (read_) read_->insert(name);
  const auto found = value_->find(name);
  return found != value_->end() && !found->is_null();
}

const nlohmann::json& JsonObject::at(const std::string& name) const {
  if (read_) read_->insert(name);
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
