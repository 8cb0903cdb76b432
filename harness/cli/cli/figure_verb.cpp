#include <charconv>
#include <cmath>
#include <cstdio>

#include "analysis/entries.h"
#include "cli/verbs.h"
#include "experiment/paths.h"
#include "figure/draw_figure.h"
#include "kvc/check.h"
#include "papers/table_fills.h"
#include "store/result_store.h"
#include "text/files.h"
#include "text/nearest.h"
#include "text/yaml_read.h"

namespace kvc {
namespace {

struct FigureArguments {
  std::string name, database, output;
  std::vector<std::string> experiments;
  bool with_suspects = false, no_title = false;
  std::string width;
};

// "84mm" is for print, "900" are points of 1/96 inch.
void set_width(const std::string& text, FigureLayout& layout) {
  if (text.empty()) return;
  layout.for_print = text.ends_with("mm");
  const auto digits = layout.for_print ? text.substr(0, text.size() - 2) : text;
  int64_t width = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), width);
  const int64_t least = layout.for_print ? 50 : 200, most = layout.for_print ? 1000 : 4000;
  KVC_CHECK(error == std::errc() && end == digits.data() + digits.size() && width >= least && width <= most,
            "--width is '", text, "', expected 200 to 4000 (points), or 50mm to 1000mm");
  if (layout.for_print) layout.title.clear(), layout.note.clear();  // its caption says it
  layout.width = layout.for_print ? std::llround(static_cast<double>(width) * 96 / 25.4) : width;
}

// Experiments that a figure is drawn from together: those of a file that its layout names and of the files beside it
// whose names go on with "_".
struct Source {
  std::vector<std::string> files, experiments;
};

std::vector<Source> sources_of(const std::string& name, const FigureLayout& layout, const Paths& paths) {
  std::vector<Source> sources;
  for (const auto& file : layout.fills) {
    KVC_CHECK(std::filesystem::exists(below_root(paths, file)), "figure ", name, ": its layout's fills name '", file,
              "', which does not exist");
    auto& source = sources.emplace_back(Source{files_beside(file, paths), {}});
    for (const auto& one : source.files) {
      auto experiment = load_yaml(below_root(paths, one)).map();
      source.experiments.push_back(experiment.optional_string("name", std::filesystem::path(one).stem().string()));
    }
  }
  return sources;
}

struct Found {
  FigureData data;
  std::vector<std::string> experiments, notes;
};

// Of the first source of which the figure has points.
Found find_data(const FigureArguments& arguments, const FigureFiles& figure, const FigureLayout& layout,
                const Paths& paths) {
  auto store = ResultStore::open_readonly(arguments.database);
  const auto sql = read_file(figure.sql);
  auto sources = sources_of(figure.name, layout, paths);
  if (figure.is_own) sources = {{{}, stored_experiments(store.database())}};
  if (!arguments.experiments.empty()) sources = {{{}, arguments.experiments}};
  std::vector<std::string> names, commands, notes;
  for (const auto& source : sources) {
    Found found{{}, source.experiments, make_entries(store.database(), source.experiments, arguments.with_suspects)};
    found.data = read_figure_data(store.database(), figure.name, sql, layout);
    if (found.data.n_points() > 0) return found;
    names.push_back(join(source.experiments));
    notes.insert(notes.end(), found.notes.begin(), found.notes.end());
    if (!source.files.empty())
      commands.push_back("./kvc run " + join(source.files, " ") + " --db " + arguments.database);
  }
  throw Error(concat("figure ", figure.name, ": '", arguments.database, "' has no data for it from ",
                     join(names, " or "), notes.empty() ? "" : "; " + join(notes, "; "),
                     commands.empty() ? "" : "; to produce it: ", join(commands, ", or ")));
}

int draw(const FigureArguments& arguments) {
  const auto paths = find_paths();
  const auto figure = find_figure(paths.root, arguments.name);
  auto layout = load_figure_layout(figure.layout);
  if (arguments.no_title) layout.title.clear(), layout.note.clear();
  set_width(arguments.width, layout);
  const auto found = find_data(arguments, figure, layout, paths);
  const auto drawn = draw_figure(layout, found.data, arguments.output);
  std::printf("%s: %zu points of %s; %s and %s draw it again\n", arguments.output.c_str(), found.data.n_points(),
              join(found.experiments).c_str(), drawn.script.c_str(), drawn.dat.c_str());
  for (const auto& note : found.notes) std::printf("%s\n", note.c_str());
  return kOk;
}

}  // namespace

void add_figure_verb(Verb program) {
  auto arguments = std::make_shared<FigureArguments>();
  auto verb = program.add_subcommand("figure", "Plots a database with gnuplot: a standard figure, or one of a paper");
  verb.add_option(
          "name", arguments->name,
          "pareto (accuracy against measured size), pareto_kl, pareto_kl_pooled (mean over texts), bars, lines, "
          "lines_kl; or a paper's, e.g. gear:1a (see `kvc tables`)")
      .required();
  verb.add_option("--db", arguments->database, "results database").required();
  verb.add_option("-o,--output", arguments->output,
                  "image to write: .svg, .pdf or .png; its .gp and .dat are written to the same folder")
      .required();
  verb.add_option("--experiment", arguments->experiments,
                  "experiments to plot, may be repeated (default: all; for a paper's figure, the first of its "
                  "experiments that has data)")
      .one_each();
  verb.add_flag("--with-suspects", arguments->with_suspects, "include suspect cells");
  verb.add_flag("--no-title", arguments->no_title, "omit title and note, for use with your own caption");
  verb.add_option("--width", arguments->width,
                  "image width in points (96 per inch), or in millimetres for print, with text of 7 points and without "
                  "title: 84mm, 174mm");
  verb.on_call([arguments] { return draw(*arguments); });
}

}  // namespace kvc
