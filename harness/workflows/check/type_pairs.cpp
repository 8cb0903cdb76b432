#include "check/type_pairs.h"

#include <cmath>
#include <cstdio>

#include "kvc/check.h"
#include "plugin_loader/build_compressor.h"

namespace kvc {
namespace {

std::string type_name(const CompressorChoice& choice) {
  if (!choice.label.empty()) return choice.label;
  return choice.options.empty() ? choice.plugin : concat(choice.plugin, " ", choice.options.dump());
}

CompressorChoice pair_of(CompressorChoice k, CompressorChoice v) {
  CompressorChoice pair{"rules", nlohmann::json::object(), v.where, CompressorChoice::Kind::rules};
  pair.label = concat("K: ", type_name(k), ", V: ", type_name(v));
  k.label = v.label = "";
  pair.parts = {std::move(k), std::move(v)};
  pair.scopes = {{.tensor = CacheTensor::v}};
  return pair;
}

std::string cell_text(const PresetResult& preset) {
  if (preset.is_baseline) return "0";
  if (preset.all.n_tokens == 0) return preset.n_failed > 0 ? "failed" : "";
  char text[64];
  std::snprintf(text, sizeof text, "%.3g (%.1f %%)", preset.all.kl.value, 100 * preset.bytes / preset.bytes_16bit);
  return text;
}

}  // namespace

std::vector<CompressorChoice> type_pairs(const std::vector<CompressorChoice>& types) {
  std::vector<CompressorChoice> pairs;
  for (size_t k = 0; k < types.size(); ++k) {
    for (size_t v = 0; v < types.size(); ++v) {
      pairs.push_back(k == v ? types[k] : pair_of(types[k], types[v]));
      if (k == v) pairs.back().label = type_name(types[k]);
    }
  }
  return pairs;
}

Table pair_table(const ModelFindings& found) {
  const auto n = static_cast<size_t>(std::lround(std::sqrt(static_cast<double>(found.presets.size()))));
  Table table;
  table.title = "KL by type of K (rows) and of V (columns)";
  table.columns = {{"K \\ V"}};
  for (size_t i = 0; i < n; ++i) table.columns.push_back({found.presets[i * n + i].name, TableColumn::Align::kRight});
  for (size_t k = 0; k < n; ++k) {
    std::vector<TableCell> row{found.presets[k * n + k].name};
    for (size_t v = 0; v < n; ++v) row.emplace_back(cell_text(found.presets[k * n + v]));
    table.rows.push_back(std::move(row));
  }
  table.notes.emplace_back("mean KL per token in nats; in parentheses the size relative to 16 bits");
  return table;
}

}  // namespace kvc
