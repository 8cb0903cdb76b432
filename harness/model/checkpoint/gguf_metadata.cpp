#include "checkpoint/gguf_metadata.h"

#include <algorithm>

#include "checkpoint/config_keys.h"
#include "kvc/check.h"
#include "text/utf8.h"

namespace kvc {
namespace {

std::string shown(const GgufValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return concat(" (", *number, ")");
  if (const auto* number = std::get_if<int64_t>(&value)) return concat(" (", *number, ")");
  if (const auto* text = std::get_if<std::string>(&value)) return " (" + in_quotes(*text) + ")";
  const auto* flag = std::get_if<bool>(&value);
  return !flag ? "" : *flag ? " (true)" : " (false)";
}

}  // namespace

double GgufMetadata::number(const std::string& key) const {
  const auto found = file_.metadata().find(prefix_ + key);
  if (found != file_.metadata().end()) {
    if (const auto* integer = std::get_if<int64_t>(&found->second)) return static_cast<double>(*integer);
  }
  return file_.number(prefix_ + key);
}

int64_t GgufMetadata::integer(const std::string& key) const {
  const auto& values = file_.metadata();
  const auto found = values.find(prefix_ + key);
  if (found == values.end() || !std::holds_alternative<std::vector<int64_t>>(found->second)) {
    return file_.integer(prefix_ + key);
  }
  const auto& layers = std::get<std::vector<int64_t>>(found->second);
  KVC_CHECK(!layers.empty() && std::equal(layers.begin() + 1, layers.end(), layers.begin()), where(key),
            " differs from layer to layer, supported: one value for all");
  return layers.front();
}

GgufValue GgufMetadata::scalar(const std::string& key) const {
  const auto found = file_.metadata().find(prefix_ + key);
  if (found != file_.metadata().end()) {
    const auto& value = found->second;
    if (std::holds_alternative<bool>(value) || std::holds_alternative<double>(value)) return value;
  }
  return integer(key);
}

std::vector<int64_t> GgufMetadata::per_layer(const std::string& key) const {
  const auto found = file_.metadata().find(prefix_ + key);
  const auto* list = found == file_.metadata().end() ? nullptr : std::get_if<std::vector<int64_t>>(&found->second);
  return list ? *list : std::vector<int64_t>();
}

void GgufMetadata::refuse_unknown(const std::set<std::string>& known) const {
  for (const auto& [key, value] : file_.metadata()) {
    if (!key.starts_with(prefix_) || known.contains(key.substr(prefix_.size())) || is_nothing_(key, value)) continue;
    throw Error(concat(file_.path(), ": key ", in_quotes(key), shown(value),
                       " is none that is computed here, or known to change nothing"));
  }
}

// "no experts", "no scaling": 0 is what llama.cpp takes for a number that is not there; of a factor, but of none that
// attention has in the place of 1 / sqrt(head_dim), 1.
bool GgufMetadata::is_nothing_(const std::string& key, const GgufValue& value) const {
  const bool multiplies = is_factor(key) && !key.substr(prefix_.size()).starts_with("attention.");
  if (const auto* number = std::get_if<double>(&value)) return *number == 0 || (multiplies && *number == 1);
  if (const auto* number = std::get_if<int64_t>(&value)) return *number == 0 || (multiplies && *number == 1);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag == (key == prefix_ + "attention.causal");
  const auto* list = std::get_if<std::vector<int64_t>>(&value);
  return list && std::all_of(list->begin(), list->end(), [](int64_t number) { return number == 0; });
}

}  // namespace kvc
