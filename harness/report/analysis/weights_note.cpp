#include "analysis/weights_note.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "kvc/check.h"
#include "text/json.h"
#include "text/nearest.h"

namespace kvc {
namespace {

using nlohmann::json;

const std::set<std::string> kFloats{"F64", "F32", "F16", "BF16"};

// "F32, Q4_K, Q6_K" -> Q4_K, Q6_K
void add_formats(const std::string& formats, std::vector<std::string>& quantized) {
  for (size_t start = 0, end = 0; end != std::string::npos; start = end + 1) {
    end = formats.find(',', start);
    auto format = formats.substr(start, end == std::string::npos ? end : end - start);
    format.erase(0, format.find_first_not_of(' '));
    if (!format.empty() && !kFloats.contains(format)) quantized.push_back(format);
  }
}

// {"bits": 8} or "int8" -> "8 bits"; "dtype" -> ""
std::string bits_text(const json& weights) {
  if (weights == "int8") return "8 bits";
  return weights.is_object() && weights.contains("bits") ? weights["bits"].dump() + " bits" : "";
}

std::string quantized_of(const std::string& model_json, const std::string& generation_json) {
  const auto model = try_json(model_json), settings = try_json(generation_json);
  std::vector<std::string> quantized;
  const json absent;
  const auto at = [&](const json& object, const char* name) -> const json& {
    return object.is_object() && object.contains(name) ? object[name] : absent;
  };
  if (const auto& format = at(model, "weights_format"); format.is_string()) {
    add_formats(format.get<std::string>(), quantized);
  }
  auto bits = bits_text(at(at(model, "quantization"), "weights"));
  if (bits.empty()) bits = bits_text(at(settings, "weights"));  // `weights: int8` is a setting
  if (!bits.empty()) quantized.push_back(bits);
  return join(quantized);
}

// Rows of model, model_json, generation_json, gathered into the note.
class Gathered {
 public:
  void add(const Statement& row) {
    const auto quantized = quantized_of(row.text(1), row.text(2));
    const auto model = row.text(0);
    if (!quantized.empty()) told_.insert(quantized + " (" + model.substr(model.rfind('/') + 1) + ")");
  }
  std::string note() const {
    return told_.empty() ? "" : "weights quantized: " + some_of({told_.begin(), told_.end()});
  }

 private:
  std::set<std::string> told_;
};

}  // namespace

std::string weights_note(Database& db, const std::set<std::string>& cell_keys) {
  auto select = db.prepare("SELECT model, model_json, generation_json FROM cell WHERE key = ?");
  Gathered gathered;
  for (const auto& key : cell_keys) {
    if (select.bind(1, key).step()) gathered.add(select);
    select.reset();
  }
  return gathered.note();
}

std::string weights_note(Database& db, const std::string& kind, const std::string& experiment) {
  auto select = db.prepare(
      "SELECT DISTINCT model, model_json, generation_json FROM cell WHERE kind = ?1"
      " AND (?2 = 'all' OR key IN (SELECT cell_key FROM experiment_cell WHERE experiment = ?2))");
  select.bind(1, kind).bind(2, experiment);
  Gathered gathered;
  while (select.step()) gathered.add(select);
  return gathered.note();
}

std::string with_note(const std::string& title, const std::string& note) {
  return title.empty() || note.empty() ? title + note : title + "; " + note;
}

}  // namespace kvc
