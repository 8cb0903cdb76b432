#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "analysis/run_status.h"
#include "cli/standard_output.h"
#include "cli/verbs.h"
#include "kvc/check.h"
#include "plan/plan_status.h"
#include "render/terminal.h"
#include "store/result_store.h"
#include "wire/interrupt.h"

namespace kvc {
namespace {

constexpr std::chrono::milliseconds kWatchInterval{2000}, kInterruptInterval{100};

struct StatusArguments {
  std::vector<std::string> databases;
  std::string format = "markdown";
  bool watch = false, wide = false;
};

// Opened anew each time: nothing is held while the writer writes.
std::string status_text(const StatusArguments& arguments) {
  std::vector<ExperimentStatus> all;
  std::string text;
  for (const auto& file : arguments.databases) {
    if (file.ends_with(".json")) {
      text += write_shown(plan_status_table(load_plan(file), seconds_since_1970()), arguments.format, arguments.wide);
      continue;
    }
    auto store = ResultStore::open_readonly(file);
    for (auto& status : experiment_statuses(store.database())) all.push_back(std::move(status));
  }
  if (all.empty() && !text.empty()) return text;
  return text + write_shown(status_table(all, seconds_since_1970()), arguments.format, arguments.wide);
}

int status(const StatusArguments& arguments) {
  const Interrupt interrupt;
  const bool redraws = arguments.watch && ::isatty(STDOUT_FILENO);
  while (true) {
    const auto text = status_text(arguments);
    std::fputs(((redraws ? "\033[H\033[2J" : "") + text).c_str(), stdout);
    if (is_output_lost() || !arguments.watch) return kOk;  // main says what is lost
    for (auto waited = kInterruptInterval; waited <= kWatchInterval; waited += kInterruptInterval) {
      if (Interrupt::signal() != 0) return kOk;
      std::this_thread::sleep_for(kInterruptInterval);
    }
  }
}

}  // namespace

void add_status_verb(Verb program) {
  auto arguments = std::make_shared<StatusArguments>();
  auto verb = program.add_subcommand("status", "Shows the progress of running experiments and plans");
  verb.add_option("databases,--db", arguments->databases, "results databases, or plans (*.json)").required();
  verb.add_flag("--watch", arguments->watch, "refresh every two seconds until Ctrl-C");
  verb.add_option("--format", arguments->format, "markdown, csv or json")
      .choices({"markdown", "csv", "json"})
      .show_default();
  add_wide(verb, arguments->wide);
  verb.on_call([arguments] { return status(*arguments); });
}

}  // namespace kvc
