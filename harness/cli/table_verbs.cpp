#include <cstdio>

#include "cli/group_tables.h"
#include "cli/verbs.h"
#include "kvc/check.h"
#include "store/result_store.h"
#include "store/summary.h"

namespace kvc {
namespace {

struct TableArguments {
  std::string database, sql, name = "summary", experiment = "all", format = "markdown";
  bool with_suspects = false, groups = false;
};

void add_common(CLI::App& verb, TableArguments& arguments) {
  verb.add_option("--db", arguments.database, "results database")->required();
  verb.add_option("--format", arguments.format, "markdown, csv or json")
      ->check(CLI::IsMember({"markdown", "csv", "json"}))
      ->capture_default_str();
}

int print(const TableArguments& arguments, const Table& table) {
  const auto text = arguments.format == "csv"    ? write_csv(table)
                    : arguments.format == "json" ? write_json(table)
                                                 : write_markdown(table);
  std::fputs(text.c_str(), stdout);
  return kOk;
}

}  // namespace

void add_table_verbs(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<TableArguments>();
  auto* table = app.add_subcommand("table", "Prints a table of a database: the summary, or another by name");
  table
      ->add_option(
          "name", arguments->name,
          "summary; stages: bytes and time of the parts of compositions; search: candidates; probe: what probes found")
      ->capture_default_str();
  add_common(*table, *arguments);
  table->add_option("--experiment", arguments->experiment, "only this experiment's cells")->capture_default_str();
  table->add_flag(both_spellings("--with-suspects"), arguments->with_suspects, "also cells marked suspect");
  table->add_flag("--groups", arguments->groups, "the means over groups of tasks (tasks/groups.yaml) instead");
  table->callback([arguments, &action] {
    action = [arguments] {
      auto store = ResultStore::open_readonly(arguments->database);
      if (arguments->name != "summary") {
        return print(*arguments, named_table(store.database(), arguments->name, arguments->experiment));
      }
      const SummaryOptions options{.experiment = arguments->experiment, .with_suspects = arguments->with_suspects};
      const auto make = arguments->groups ? groups_of : summary_table;
      return print(*arguments, make(store.database(), options));
    };
  });

  auto* query = app.add_subcommand("query", "Prints what an SQL query returns; writing statements are refused");
  add_common(*query, *arguments);
  query->add_option("sql", arguments->sql, "one SELECT statement")->required();
  query->callback([arguments, &action] {
    action = [arguments] {
      auto store = ResultStore::open_readonly(arguments->database);
      return print(*arguments, run_query(store.database(), arguments->sql));
    };
  });
}

}  // namespace kvc
