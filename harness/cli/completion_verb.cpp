// kvc completion, and kvc page: what the program says of its own verbs, for shells and for the documentation.
#include <cstdio>

#include "cli/verbs.h"
#include "command_line/completion.h"
#include "command_line/verbs_page.h"
#include "report/database_page.h"
#include "run/experiment_page.h"

namespace kvc {

void add_completion_verb(CommandLine& line) {
  auto shell = std::make_shared<std::string>();
  auto verb = line.program().add_subcommand("completion", "Prints a shell's completion of kvc, for it to source");
  verb.add_option("shell", *shell, "bash, zsh or fish").required().choices(completion_shells());
  verb.on_call([shell, &line] {
    std::fputs(completion_script(*shell, line.declared()).c_str(), stdout);
    return kOk;
  });

  auto page = std::make_shared<std::string>();
  verb = line.program().add_subcommand("page", "Prints a page of docs/ that is made by the program");
  verb.add_option("name", *page, "verbs, experiments or database: docs/NAME.md")
      .required()
      .choices({"verbs", "experiments", "database"});
  verb.on_call([page, &line] {
    const auto text = *page == "verbs"         ? verbs_page(line.declared())
                      : *page == "experiments" ? experiment_page()
                                               : database_page();
    std::fputs(text.c_str(), stdout);
    return kOk;
  });
}

}  // namespace kvc
