#include <cstdio>

#include "cli/verbs.h"
#include "store/printed_table.h"

namespace kvc {
namespace {

struct CheckArguments {
  std::vector<std::string> files;
  std::string format = "markdown";
};

int check(const CheckArguments& arguments) {
  std::vector<PrintedTable> tables;
  for (const auto& file : arguments.files) tables.push_back(load_printed_table(file));
  const auto table = findings_table(tables);
  std::fputs(write_table(table, arguments.format).c_str(), stdout);
  return kOk;
}

}  // namespace

void add_check_verb(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<CheckArguments>();
  auto* verb = app.add_subcommand("check", "Recomputes what papers' printed tables say of themselves");
  verb->add_option("files", arguments->files, "tables as YAML, e.g. results/external/*.yaml")->required();
  verb->add_option("--format", arguments->format, "markdown, csv or json")
      ->check(CLI::IsMember({"markdown", "csv", "json"}))
      ->capture_default_str();
  verb->callback([arguments, &action] { action = [arguments] { return check(*arguments); }; });
}

}  // namespace kvc
