#include <algorithm>
#include <cstdio>

#include "check/check_model.h"
#include "cli/verbs.h"
#include "kvc/check.h"
#include "tables/printed_table.h"

namespace kvc {
namespace {

struct CheckArguments {
  std::vector<std::string> what;
  std::string format = "markdown";
  CheckModelArguments model;
};

bool is_table(const std::string& argument) { return argument.ends_with(".yaml") || argument.ends_with(".yml"); }

int check(CheckArguments arguments) {
  const auto n_tables = std::count_if(arguments.what.begin(), arguments.what.end(), is_table);
  const auto n = static_cast<std::ptrdiff_t>(arguments.what.size());
  KVC_CHECK(n_tables == n || n_tables == 0, "check: ", n, " arguments, ", n_tables,
            " of them printed tables (.yaml): expected models alone, or tables alone");
  if (n_tables == 0) {
    arguments.model.models = arguments.what;
    const auto outcome = check_models(arguments.model);
    if (outcome.signal) return report_interrupt(outcome.signal, outcome.database);
    return outcome.n_failed + outcome.n_unchecked > 0 ? kSomeFailed : kOk;
  }
  std::vector<PrintedTable> tables;
  for (const auto& file : arguments.what) tables.push_back(load_printed_table(file));
  const auto table = findings_table(tables);
  std::fputs(write_table(table, arguments.format).c_str(), stdout);
  return kOk;
}

}  // namespace

void add_check_verb(Verb program) {
  auto arguments = std::make_shared<CheckArguments>();
  auto verb = program.add_subcommand(
      "check",
      "Says what compressors do to models, with a verdict for each; of printed tables what they say of themselves");
  verb.add_option("what", arguments->what, "models, as experiments name them; or papers' tables as YAML").required();
  auto& model = arguments->model;
  verb.add_flag("--quick", model.quick, "fewer windows and lengths: two minutes instead of ten");
  verb.add_option("--context", model.context, "tokens (default: the file's, or the model's where that is less)")
      .positive();
  verb.add_option("--text", model.text, "a text of your own to read (default: the tasks' own)");
  verb.add_option("-o,--output", model.output, "a page of it, one file");
  verb.add_option("--db,--database", model.database, "results database (default: results/check-<models>.sqlite)");
  verb.add_option("--config", model.config, "compressors, tasks and bounds").show_default();
  verb.add_option("--set", model.settings, "path=value put over the file, e.g. workers=1");
  add_allow_plugins(verb, model.allow_plugins);
  verb.add_option("--format", arguments->format, "of printed tables: markdown, csv or json")
      .choices({"markdown", "csv", "json"})
      .show_default();
  verb.on_call([arguments] { return check(*arguments); });
}

}  // namespace kvc
