#include <algorithm>
#include <cstdio>

#include "analysis/entries.h"
#include "analysis/group_table.h"
#include "analysis/likelihood_table.h"
#include "analysis/query.h"
#include "analysis/shared_options.h"
#include "analysis/summary.h"
#include "analysis/tails.h"
#include "check/check_tables.h"
#include "cli/verbs.h"
#include "experiment/paths.h"
#include "kvc/check.h"
#include "papers/paper_tables.h"
#include "render/terminal.h"
#include "store/result_store.h"
#include "tables/paper_table.h"
#include "text/nearest.h"

namespace kvc {
namespace {

struct TableArguments {
  std::string database, sql, name = "summary", experiment = "all", format = "markdown", title;
  std::vector<std::string> columns;
  int64_t stretch = 0;
  bool with_suspects = false, groups = false;
  bool with_external = false, standalone = false, trace = false, all = false, no_intervals = false, wide = false;
};

// -> the database's option
Option add_common(Verb verb, TableArguments& arguments) {
  auto database = verb.add_option("--db", arguments.database, "results database");
  verb.add_option("--format", arguments.format, "markdown, csv or json")
      .choices({"markdown", "csv", "json"})
      .show_default();
  add_wide(verb, arguments.wide);
  return database;
}

int print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return kOk;
}

int print(const TableArguments& arguments, Table table) {
  if (!arguments.title.empty()) table.title = arguments.title;
  const bool is_for_people = arguments.format != "csv" && arguments.format != "json";
  if (is_for_people && arguments.columns.empty()) share_options(table);
  const bool is_shaped = arguments.format == "latex" || arguments.format == "html" || !arguments.columns.empty();
  if (!is_shaped) return print(write_shown(table, arguments.format, arguments.wide));
  auto shown = as_paper_table(table);
  choose_columns(shown, {arguments.columns});
  return print(write_table(shown, arguments.format, arguments.standalone));
}

bool is_of_a_paper(const std::string& name) { return name.find(':') != std::string::npos; }

bool is_of_imports_alone(Database& db) {
  return db.integer("SELECT NOT EXISTS (SELECT 1 FROM cell) AND EXISTS (SELECT 1 FROM external_result)") != 0;
}

// Of tables without a layout; own: those with one, which may have been meant.
void check_table_name(const std::string& name, const std::vector<std::string>& own) {
  auto known = table_names();
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  known.insert(known.end(), {"likelihood", "tails", "check"});
  known.insert(known.end(), own.begin(), own.end());
  throw Error(unknown_name("table", name, known));
}

int show_table(const TableArguments& arguments) {
  KVC_CHECK(!arguments.database.empty(), "--db is missing: a results database");
  KVC_CHECK(arguments.stretch == 0 || arguments.name == "likelihood", "--stretch ", arguments.stretch,
            " applies to the table likelihood, not to '", arguments.name, "'");
  const auto own = own_tables();
  if (is_of_a_paper(arguments.name) || std::ranges::count(own, arguments.name) > 0) {
    return print(print_paper_table({arguments.database,
                                    arguments.name,
                                    arguments.experiment,
                                    arguments.format,
                                    arguments.with_suspects,
                                    arguments.with_external,
                                    arguments.standalone,
                                    arguments.trace,
                                    arguments.title,
                                    {arguments.columns, !arguments.no_intervals}}));
  }
  auto store = ResultStore::open_readonly(arguments.database);
  if (arguments.name == "likelihood") {
    return print(arguments, likelihood_table(store.database(), {.experiment = arguments.experiment,
                                                                .with_suspects = arguments.with_suspects,
                                                                .stretch = arguments.stretch}));
  }
  if (arguments.name == "tails") {
    return print(arguments, tails_table(store.database(), {.experiment = arguments.experiment,
                                                           .with_suspects = arguments.with_suspects}));
  }
  if (arguments.name == "check") {
    if (arguments.experiment != "all") check_stored_experiment(store.database(), arguments.experiment);
    const auto settings = load_check_settings(find_paths().root / "configs" / "check.yaml");
    auto verdicts = stored_verdicts(store.database(), arguments.experiment, settings);
    const bool is_for_paper = arguments.format == "latex" && arguments.columns.empty();
    return print(arguments, is_for_paper ? for_paper(std::move(verdicts)) : std::move(verdicts));
  }
  if (arguments.name != "summary") {
    check_table_name(arguments.name, own);
    return print(arguments, named_table(store.database(), arguments.name, arguments.experiment));
  }
  if (arguments.experiment == "all" && !arguments.groups && is_of_imports_alone(store.database())) {
    return print(arguments, named_table(store.database(), "external", "all"));
  }
  const SummaryOptions options{.experiment = arguments.experiment, .with_suspects = arguments.with_suspects};
  if (!arguments.groups) {
    const auto printed = print(arguments, summary_table(store.database(), options));
    const bool with_plot = !arguments.wide && arguments.format == "markdown" && arguments.columns.empty();
    return with_plot ? print(plot_of_summary(store.database(), options, standard_output().width)) : printed;
  }
  return print(arguments, group_table(store.database(), options, task_groups(find_paths().root / "tasks")));
}

void add_table_verb(Verb program) {
  auto arguments = std::make_shared<TableArguments>();
  auto table =
      program.add_subcommand("table", "Prints a table of a database: the summary (default) or another by name");
  table
      .add_option("name", arguments->name,
                  "summary; tasks: accuracy by task; by_size: compressors by measured size; sizes: size by prompt "
                  "length; stages: bytes and time of each stage of a composition; search: candidates; probe: "
                  "measurements of probes; likelihood: of text, by position; tails: KL token by token; check: "
                  "verdicts, as `kvc check` gives them; external: "
                  "imported results; gear:1: a "
                  "table of a paper (`kvc tables` lists them)")
      .show_default();
  table.add_option("--db", arguments->database, "results database");
  table.add_option("--format", arguments->format, "markdown, csv, json, latex or html")
      .choices({"markdown", "csv", "json", "latex", "html"})
      .show_default();
  add_wide(table, arguments->wide);
  table.add_option("--experiment", arguments->experiment, "only this experiment's cells").show_default();
  table.add_flag("--with-suspects", arguments->with_suspects,
                 "include suspect cells (no evidence that they compressed anything)");
  table.add_flag("--groups", arguments->groups, "print means over groups of tasks instead (tasks/groups.yaml)");
  table.add_option("--stretch", arguments->stretch, "likelihood: positions per row (default: ranges that double)")
      .positive();
  table.add_flag("--with-external", arguments->with_external, "add the paper's published values");
  table.add_flag("--standalone", arguments->standalone, "latex, html: a complete document");
  table.add_option("--title", arguments->title, "title to print instead of the table's own");
  table.add_option("--columns", arguments->columns, "only these columns, in this order, separated by commas")
      .delimiter(',');
  table.add_flag("--no-intervals", arguments->no_intervals, "omit the intervals in brackets");
  table.add_flag("--trace", arguments->trace, "print the cells and samples that each value comes from");
  table.on_call([arguments] { return show_table(*arguments); });

  struct Validated {
    std::vector<std::string> names;
    std::string format = "markdown";
  };
  auto validated = std::make_shared<Validated>();
  auto verb = table.add_subcommand("validate", "Checks published tables for arithmetic consistency");
  verb.add_option("tables", validated->names,
                  "PAPER:NAME, or YAML files as in results/external (default: all of results/external)");
  verb.add_option("--format", validated->format, "markdown, csv or json")
      .choices({"markdown", "csv", "json"})
      .show_default();
  verb.on_call([validated] { return print(check_printed_tables(validated->names, validated->format)); });
}

void add_tables_verb(Verb program) {
  auto arguments = std::make_shared<TableArguments>();
  auto tables = program.add_subcommand(
      "tables", "Lists the papers' tables and figures, with the experiments that produce them and their progress");
  add_common(tables, *arguments);
  tables.add_flag("--all", arguments->all, "include experiments whose model is not downloaded");
  tables.on_call([arguments] {
    return print(
        write_shown(list_paper_tables(arguments->database, arguments->all), arguments->format, arguments->wide));
  });
}

}  // namespace

void add_wide(Verb verb, bool& wide) {
  verb.add_flag("--wide", wide, "print all columns as Markdown, even on a terminal");
}

void add_table_verbs(Verb program) {
  add_table_verb(program);
  add_tables_verb(program);
  auto arguments = std::make_shared<TableArguments>();
  auto query = program.add_subcommand("query", "Runs a read-only SQL query on a database and prints the result");
  add_common(query, *arguments).required();
  query.add_option("sql", arguments->sql, "one SELECT statement").required();
  query.on_call([arguments] {
    auto store = ResultStore::open_readonly(arguments->database);
    return print(*arguments, run_query(store.database(), arguments->sql));
  });
}

}  // namespace kvc
