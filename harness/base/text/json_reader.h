// Strict JSON: broken text, duplicate keys and deep nesting are Errors that name the file; typed fields name file,
// field, value and what was allowed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

namespace kvc {

// Throws Error "<file>: byte N: ..." on anything but one JSON value in UTF-8 without duplicate keys.
nlohmann::json parse_json(std::string_view text, const std::string& file);
nlohmann::json read_json(const std::filesystem::path& path);

// At most 60 characters of a value, for an error text.
std::string brief(const nlohmann::json& value);

// A JSON object and the place it stands at ("config.json", "tokenizer.json: normalizer"). Does not own the value.
class JsonObject {
 public:
  JsonObject(const nlohmann::json& value, std::string where);

  // From here on the names that are asked for are added to `names`, which outlives this object and its copies.
  void note_reads(std::set<std::string>& names) { read_ = &names; }

  bool has(const std::string& name) const;  // present and not null
  const nlohmann::json& at(const std::string& name) const;
  int64_t integer(const std::string& name, int64_t min, int64_t max) const;
  double number(const std::string& name, double min, double max) const;
  bool boolean(const std::string& name) const;
  bool boolean(const std::string& name, bool absent) const;
  std::string text(const std::string& name) const;
  std::string text(const std::string& name, const std::string& absent) const;
  const nlohmann::json& array(const std::string& name) const;
  JsonObject object(const std::string& name) const;

  const nlohmann::json& json() const { return *value_; }
  const std::string& where() const { return where_; }
  std::string where(const std::string& name) const;

 private:
  const nlohmann::json* value_;
  std::string where_;
  std::set<std::string>* read_ = nullptr;
};

}  // namespace kvc
