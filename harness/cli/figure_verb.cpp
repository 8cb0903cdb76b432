#include <cstdio>

#include "cli/verbs.h"
#include "figure/draw_figure.h"
#include "kvc/check.h"
#include "run/paths.h"
#include "store/result_store.h"
#include "text/files.h"
#include "text/nearest.h"
#include "text/yaml_read.h"

namespace kvc {
namespace {

struct FigureArguments {
  std::string name, database, output, experiment;
};

struct Source {
  std::string file, experiment;
};

// The experiments that bring a figure's cells, by the files that its layout names.
std::vector<Source> sources_of(const FigureLayout& layout, const Paths& paths) {
  std::vector<Source> sources;
  for (const auto& file : layout.fills) {
    auto experiment = load_yaml(below_root(paths, file)).map();
    sources.push_back({file, experiment.optional_string("name", std::filesystem::path(file).stem().string())});
  }
  return sources;
}

// The first experiment of which the figure has points.
FigureData find_data(const FigureArguments& arguments, const FigureFiles& figure, const FigureLayout& layout,
                     const Paths& paths, std::string& experiment) {
  auto store = ResultStore::open_readonly(arguments.database);
  const auto sql = read_file(figure.sql);
  auto sources = sources_of(layout, paths);
  if (!arguments.experiment.empty()) sources = {{"", arguments.experiment}};
  std::vector<std::string> names, files;
  for (const auto& source : sources) {
    experiment = source.experiment;
    auto data = read_figure_data(store.database(), figure.name, sql, layout, source.experiment);
    if (data.n_points() > 0) return data;
    names.push_back(source.experiment);
    if (!source.file.empty()) files.push_back("./kvc run " + source.file + " --db " + arguments.database);
  }
  throw Error(concat("figure ", figure.name, ": '", arguments.database, "' holds nothing for it of ",
                     join(names, " or "), files.empty() ? "" : "; it comes from: ", join(files, ", or ")));
}

int draw(const FigureArguments& arguments) {
  const auto paths = find_paths();
  const auto figure = find_figure(paths.root, arguments.name);
  const auto layout = load_figure_layout(figure.layout);
  std::string experiment;
  const auto data = find_data(arguments, figure, layout, paths, experiment);
  const auto drawn = draw_figure(layout, data, arguments.output);
  std::printf("%s: %zu points of %s; %s and %s draw it again\n", arguments.output.c_str(), data.n_points(),
              experiment.c_str(), drawn.script.c_str(), drawn.dat.c_str());
  return kOk;
}

}  // namespace

void add_figure_verb(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<FigureArguments>();
  auto* verb = app.add_subcommand("figure", "Draws a figure of a paper from a database with gnuplot");
  verb->add_option("name", arguments->name, "paper:name, of results/figures")->required();
  verb->add_option("--db", arguments->database, "results database")->required();
  verb->add_option("-o,--output", arguments->output, "picture: .svg, .pdf or .png; its .gp and .dat stand beside it")
      ->required();
  verb->add_option("--experiment", arguments->experiment,
                   "whose cells; default: the first of the figure's own that has");
  verb->callback([arguments, &action] { action = [arguments] { return draw(*arguments); }; });
}

}  // namespace kvc
