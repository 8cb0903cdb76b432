// kvc report, kvc serve, kvc columns: a database as one page, in a browser, and what its columns mean.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "analysis/group_table.h"
#include "cli/verbs.h"
#include "contract/stopwatch.h"
#include "experiment/paths.h"
#include "kvc/check.h"
#include "model_lookup/token_texts.h"
#include "papers/paper_tables.h"
#include "report/report.h"
#include "serve/columns.h"
#include "serve/current_database.h"
#include "serve/metadata.h"
#include "serve/serve.h"
#include "store/result_store.h"
#include "text/files.h"

namespace kvc {
namespace {

struct ReportArguments {
  std::string database, output = "report.html";
  ReportOptions options;
};

int report(ReportArguments arguments) {
  const auto started = Clock::now();
  TemporaryFolder folder;
  const auto current = current_database(arguments.database, folder);
  auto store = ResultStore::open_readonly(current);
  auto& options = arguments.options;
  const auto paths = find_paths();
  TokenTexts texts(store.database(), paths);
  options.token_texts = [&](const auto& model, const auto& key, const auto& ids) { return texts.of(model, key, ids); };
  options.tables.push_back(
      group_table(store.database(), {options.experiment, options.with_suspects}, task_groups(paths.root / "tasks")));
  options.papers_html = html_of_filled_tables(current.string(), options.with_suspects);
  const auto made = make_report(store.database(), options);
  write_file(arguments.output, made.html);
  const auto seconds = seconds_since(started);
  const double n = static_cast<double>(std::max<int64_t>(1, made.n_embedded));
  std::printf("%s: %.0f KiB, %d tables, %d charts; %ld cells; %ld of %ld generations, %.0f bytes each; %.1f s\n",
              arguments.output.c_str(), static_cast<double>(made.html.size()) / 1024, made.n_tables, made.n_charts,
              made.n_cells, made.n_embedded, made.n_samples, static_cast<double>(made.embedded_bytes) / n, seconds);
  return kOk;
}

struct ServeArguments {
  std::string database, metadata;
  ServeOptions options;
  bool no_open = false;
};

// KVC_DATASETTE, else what the set-up installed beside the program.
std::filesystem::path find_datasette(const Paths& paths) {
  if (const char* given = std::getenv("KVC_DATASETTE")) return given;
  return paths.program.parent_path().parent_path() / "datasette-venv/bin/datasette";
}

// Datasette takes this process over, so that ending one ends the other.
int serve(ServeArguments arguments) {
  const auto paths = find_paths();
  auto& options = arguments.options;
  TemporaryFolder folder;
  options.database = current_database(arguments.database, folder);
  auto store = ResultStore::open_readonly(options.database);
  const auto metadata =
      datasette_metadata(store.database(), options.database.stem().string(), queries_of_papers(store.database()));
  if (!arguments.metadata.empty()) {
    write_file(arguments.metadata, metadata);
    return kOk;
  }
  options.datasette = find_datasette(paths);
  if (!std::filesystem::exists(options.datasette)) {
    throw EnvironmentError(concat("serve: there is no '", options.datasette.string(),
                                  "'; `./kvc setup` installs Datasette, or set KVC_DATASETTE"));
  }
  options.plugins = paths.root / "results/datasette";
  const auto functions = paths.program.parent_path().parent_path() / "lib/libkvc_functions.so";
  setenv("KVC_FUNCTIONS", functions.c_str(), 1);
  setenv("KVC_PROGRAM", paths.program.c_str(), 1);  // draws its figures
  setenv("KVC_SERVED", std::filesystem::absolute(options.database).c_str(), 1);
  options.metadata = folder.path() / "metadata.json";
  write_file(options.metadata.string(), metadata);
  options.open = !arguments.no_open;
  auto words = serve_command(options);
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  folder.remove_after_exec();
  execv(pointers[0], pointers.data());
  throw EnvironmentError(concat("serve: cannot start '", words[0], "': ", std::strerror(errno)));
}

void add_serve_verb(Verb program) {
  auto arguments = std::make_shared<ServeArguments>();
  auto verb =
      program.add_subcommand("serve", "Opens a database in Datasette on localhost, with every column described");
  verb.add_option("database,--db", arguments->database, "results database").required();
  verb.add_option("--port", arguments->options.port, "port on 127.0.0.1; 0: any free port")
      .range(0, 65535)
      .show_default();
  verb.add_flag("--no-open", arguments->no_open, "do not open a browser");
  verb.add_option("--metadata", arguments->metadata, "only write Datasette's metadata to this file");
  verb.on_call([arguments] { return serve(*arguments); });
}

void add_columns_verb(Verb program) {
  auto table = std::make_shared<std::string>(), format = std::make_shared<std::string>("markdown");
  auto verb = program.add_subcommand("columns", "Describes every column of the database, with units");
  verb.add_option("table", *table, "only this table or view");
  verb.add_option("--format", *format, "markdown, csv or json").choices({"markdown", "csv", "json"}).show_default();
  verb.on_call([table, format] {
    std::fputs(write_table(columns_table(*table), *format).c_str(), stdout);
    return kOk;
  });
}

}  // namespace

void add_report_verbs(Verb program) {
  auto arguments = std::make_shared<ReportArguments>();
  auto verb =
      program.add_subcommand("report", "Writes tables and charts of a database as one self-contained HTML page");
  auto& options = arguments->options;
  verb.add_option("database,--db", arguments->database, "results database").required();
  verb.add_option("-o,--output", arguments->output, "HTML file to write").show_default();
  verb.add_option("--experiment", options.experiment, "only this experiment's cells").show_default();
  verb.add_option("--baseline", options.baseline, "compressor to compare the others with (default: the lossless one)");
  verb.add_option("--samples", options.samples_per_task, "generations to include, per task")
      .range(0, 100000)
      .show_default();
  verb.add_flag("--with-suspects", options.with_suspects, "include suspect cells");
  verb.on_call([arguments] { return report(*arguments); });
  add_serve_verb(program);
  add_columns_verb(program);
}

}  // namespace kvc
