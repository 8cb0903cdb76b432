#include "figure/figure_layout.h"

#include <algorithm>

#include "kvc/check.h"
#include "text/nearest.h"
#include "text/yaml_read.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kKinds{"lines", "bars", "stacked", "scatter", "box", "heat"};  // as FigureLayout::Kind

FigureAxis read_axis(YamlMap map) {
  FigureAxis axis;
  axis.label = map.required_string("label");
  axis.unit = map.optional_string("unit", "");
  axis.is_log = map.optional_boolean("log", false);
  if (const auto min = map.optional("min")) axis.min = min->real();
  if (const auto max = map.optional("max")) axis.max = max->real();
  const auto& place = map.value();
  if (axis.min && axis.max && *axis.min >= *axis.max) {
    place.fail(place.name(), ".min is ", *axis.min, ", expected less than max, ", *axis.max);
  }
  if (axis.is_log && ((axis.min && *axis.min <= 0) || (axis.max && *axis.max <= 0))) {
    place.fail(place.name(), " is logarithmic, expected min and max above 0");
  }
  map.reject_unknown();
  return axis;
}

}  // namespace

FigureLayout load_figure_layout(const fs::path& yaml_file) {
  auto map = load_yaml(yaml_file).map();
  FigureLayout layout;
  layout.title = map.required_string("title");
  const auto kind = map.required_choice("kind", kKinds);
  layout.kind = static_cast<FigureLayout::Kind>(std::find(kKinds.begin(), kKinds.end(), kind) - kKinds.begin());
  layout.x = read_axis(map.required("x").map());
  layout.y = read_axis(map.required("y").map());
  if (layout.kind == FigureLayout::Kind::kHeat) layout.z = read_axis(map.required("z").map());
  layout.fills = map.optional_strings("fills");
  layout.note = map.optional_string("note", "");
  layout.names_points = map.optional_boolean("names_points", false);
  if (const auto front = map.optional("front")) layout.front = front->choice({"low", "high"});
  if (const auto bounds = map.optional("bounds")) {
    for (const auto& [name, value] : bounds->map().entries()) layout.bounds.emplace_back(name, value.real());
  }
  layout.width = map.optional_integer("width", 200, 4000, 0);
  layout.height = map.optional_integer("height", 150, 4000, 0);
  map.reject_unknown();
  return layout;
}

std::vector<FigureFiles> all_figures(const fs::path& root) {
  std::vector<FigureFiles> figures;
  const auto folder = root / "results/figures";
  if (!fs::is_directory(folder)) return figures;
  for (const auto& paper : fs::directory_iterator(folder)) {
    if (!paper.is_directory()) continue;
    for (const auto& file : fs::directory_iterator(paper.path())) {
      if (file.path().extension() != ".yaml") continue;
      const auto folder_name = paper.path().filename().string(), stem = file.path().stem().string();
      const bool is_own = folder_name == "own";
      figures.push_back({is_own ? stem : concat(folder_name, ":", stem), is_own, file.path(),
                         fs::path(file.path()).replace_extension(".sql")});
    }
  }
  std::sort(figures.begin(), figures.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return figures;
}

FigureFiles find_figure(const fs::path& root, const std::string& name) {
  std::vector<std::string> known;
  for (auto& figure : all_figures(root)) {
    if (figure.name == name) return figure;
    known.push_back(figure.name);
  }
  throw Error(unknown_name("figure", name, known));
}

}  // namespace kvc
