// kvc: evaluates KV-cache compressors. An experiment is a YAML file, a result a row in SQLite, a table a query.
#include <signal.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#include "cli/verbs.h"
#include "kvc/check.h"
#include "worker/worker.h"

namespace {

int run(int argc, char** argv) {
  CLI::App app{"Evaluates KV-cache compressors: accuracy, measured bytes and memory of each, from one YAML file."};
  app.name("kvc");
  app.require_subcommand(1);
  kvc::Action action;
  kvc::add_run_verb(app, action);
  kvc::add_calibrate_verb(app, action);
  kvc::add_table_verbs(app, action);
  kvc::add_figure_verb(app, action);
  kvc::add_compare_verbs(app, action);
  kvc::add_check_verb(app, action);
  kvc::add_inspect_verbs(app, action);
  kvc::add_tasks_verb(app, action);
  kvc::add_model_verbs(app, action);
  kvc::add_data_verb(app, action);
  kvc::add_prompt_verb(app, action);
  kvc::add_score_verb(app, action);
  kvc::add_rescore_verb(app, action);
  kvc::add_plugin_verbs(app, action);
  kvc::add_try_verbs(app, action);
  kvc::add_search_verb(app, action);
  kvc::add_smooth_verb(app, action);
  kvc::add_report_verbs(app, action);
  kvc::add_exchange_verbs(app, action);
  kvc::add_verify_run_verb(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kvc::kOk : kvc::kUsage;
  }
  return action();
}

// One line: LibTorch's errors carry a stack trace behind their first.
std::string first_line(const char* text) { return std::string(text, std::strcspn(text, "\n")); }

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond `ulimit -f` is then an error that can be told
  try {
    if (argc == 2 && std::string(argv[1]) == "worker") return kvc::run_worker();
    return run(argc, argv);
  } catch (const kvc::EnvironmentError& e) {
    std::fprintf(stderr, "kvc: %s\n", first_line(e.what()).c_str());
    return kvc::kEnvironment;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "kvc: %s\n", first_line(e.what()).c_str());
    return kvc::kUsage;
  }
}
