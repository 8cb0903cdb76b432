#include <cstdio>

#include "check/budget.h"
#include "cli/verbs.h"
#include "render/terminal.h"

namespace kvc {
namespace {

int budget(const BudgetArguments& arguments, const std::string& format) {
  const auto report = find_budget(arguments);
  if (report.signal != 0) return 128 + report.signal;
  std::fputs(write_table(budget_table(report), format).c_str(), stdout);
  return report.recommended >= 0 ? kOk : kWorse;
}

}  // namespace

void add_budget_verb(Verb program) {
  struct Arguments : BudgetArguments {
    std::string format = "markdown";
  };
  auto arguments = std::make_shared<Arguments>();
  auto verb = program.add_subcommand(
      "budget", "Finds the weights and cache type of one model that lose least within an amount of memory");
  verb.add_option("models", arguments->models, "files of one model, its weights in several types").required();
  verb.add_option("--memory", arguments->memory, "memory for weights and KV cache together, e.g. 6GiB").required();
  verb.add_option("--context", arguments->context, "tokens that the cache is sized for").required().positive();
  verb.add_option("--config", arguments->config, "file with cache types and texts").show_default();
  verb.add_option("--as", arguments->as, "an inference engine's cache options instead, as of `kvc check`");
  verb.add_option("--text", arguments->texts, "text file to evaluate on; may be repeated");
  verb.add_option("--set", arguments->settings, "path=value overrides the file");
  verb.add_option("--format", arguments->format, "markdown, csv or json")
      .choices({"markdown", "csv", "json"})
      .show_default();
  add_allow_plugins(verb, arguments->allow_plugins);
  verb.on_call([arguments] { return budget(*arguments, arguments->format); });
}

}  // namespace kvc
