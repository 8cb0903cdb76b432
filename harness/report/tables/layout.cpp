#include "tables/layout.h"

#include <algorithm>

#include "kvc/check.h"
#include "text/nearest.h"
#include "text/yaml_read.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOwn = "own";

ColumnStyle read_style(YamlMap map, ColumnStyle style) {
  style.label = map.optional_string("label", "");
  style.unit = map.optional_string("unit", style.unit);
  style.decimals = static_cast<int>(map.optional_integer("decimals", 0, 12, style.decimals));
  style.best = map.optional_choice("best", {"high", "low", "none"}, style.best.empty() ? "none" : style.best);
  if (style.best == "none") style.best.clear();
  style.interval = map.optional_boolean("interval", style.interval);
  map.reject_unknown();
  return style;
}

void read_printed(YamlMap map, const fs::path& yaml_file, TableLayout& layout) {
  // results/tables/<paper>/x.yaml -> results/external/<file>
  const auto file = map.required("file");
  layout.printed_file = yaml_file.parent_path().parent_path().parent_path() / "external" / file.string();
  if (const auto columns = map.optional("columns")) {
    for (const auto& [column, own] : columns->map().entries()) layout.printed.emplace_back(column, own.string());
  }
  map.reject_unknown();
}

// "10" behind "9", "1a" behind "1"
std::pair<int64_t, std::string> number_first(const std::string& name) {
  const auto end = std::min(name.find_first_not_of("0123456789"), name.size());
  return {end == 0 || end > 9 ? std::int64_t{1} << 40 : std::stoll(name.substr(0, end)), name};
}

}  // namespace

TableLayout load_layout(const fs::path& yaml_file) {
  auto map = load_yaml(yaml_file).map();
  TableLayout layout;
  const auto paper = yaml_file.parent_path().filename().string(), stem = yaml_file.stem().string();
  layout.is_own = paper == kOwn;
  layout.name = layout.is_own ? stem : paper + ":" + stem;
  layout.yaml_file = yaml_file;
  layout.sql_file = yaml_file.parent_path() / map.optional_string("sql", stem + ".sql");
  layout.title = map.required_string("title");
  layout.row_heading = map.optional_string("rows", "method");
  layout.fills = map.has("fills") ? map.optional_strings("fills")
                 : layout.is_own  ? std::vector<std::string>{}
                                  : std::vector{paper + "_" + stem};
  if (const auto values = map.optional("values")) layout.values = read_style(values->map(), {});
  if (const auto columns = map.optional("columns")) {
    for (const auto& [key, style] : columns->map().entries()) {
      ColumnStyle otherwise;
      otherwise.interval = layout.values.interval;
      layout.columns[key] = read_style(style.map(), otherwise);
    }
  }
  if (const auto labels = map.optional("labels")) {
    for (const auto& [key, label] : labels->map().entries()) layout.labels.emplace_back(key, label.string());
  }
  layout.hidden = map.optional_strings("hide");
  layout.baseline = map.optional_strings("baseline");
  if (const auto printed = map.optional("printed")) read_printed(printed->map(), yaml_file, layout);
  layout.notes = map.optional_strings("notes");
  map.reject_unknown();
  KVC_CHECK(fs::is_regular_file(layout.sql_file), "table ", layout.name, ": there is no '", layout.sql_file.string(),
            "' with its SQL");
  return layout;
}

std::vector<std::string> layout_names(const fs::path& tables_folder) {
  KVC_CHECK(fs::is_directory(tables_folder), "tables: there is no folder '", tables_folder.string(), "'");
  std::vector<std::pair<std::string, std::string>> found;
  for (const auto& paper : fs::directory_iterator(tables_folder)) {
    if (!paper.is_directory() || paper.path().filename() == kOwn) continue;
    for (const auto& file : fs::directory_iterator(paper.path())) {
      if (file.path().extension() == ".yaml") {
        found.emplace_back(paper.path().filename().string(), file.path().stem().string());
      }
    }
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, number_first(a.second)) < std::pair(b.first, number_first(b.second));
  });
  std::vector<std::string> names;
  for (const auto& [paper, stem] : found) names.push_back(paper + ":" + stem);
  return names;
}

std::vector<std::string> own_layout_names(const fs::path& tables_folder) {
  std::vector<std::string> names;
  if (!fs::is_directory(tables_folder / kOwn)) return names;
  for (const auto& file : fs::directory_iterator(tables_folder / kOwn)) {
    if (file.path().extension() == ".yaml") names.push_back(file.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TableLayout find_layout(const fs::path& tables_folder, const std::string& name) {
  const auto own = tables_folder / kOwn / (name + ".yaml");
  if (name.find(':') == std::string::npos && fs::exists(own)) return load_layout(own);
  const auto names = layout_names(tables_folder);
  if (std::find(names.begin(), names.end(), name) == names.end()) throw Error(unknown_name("table", name, names));
  const auto colon = name.find(':');
  return load_layout(tables_folder / name.substr(0, colon) / (name.substr(colon + 1) + ".yaml"));
}

}  // namespace kvc
