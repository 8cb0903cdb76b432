// kvc: evaluates KV-cache compressors. An experiment is a YAML file, a result a row in SQLite, a table a query.
#include <signal.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <new>
#include <string>

#include "cli/standard_output.h"
#include "cli/verbs.h"
#include "cli/version.h"
#include "host/host.h"
#include "kvc/check.h"
#include "text/end_process.h"
#include "text/several_errors.h"
#include "wire/child_end.h"
#include "worker/worker.h"

namespace {

// Old spellings of verbs and tables, which keep working.
const std::vector<kvc::Alias> kAliases{{"table", "levels", "table", "by_size"},
                                       {"table", "--check", "table", "validate"},
                                       {"check", "*.yaml", "table", "validate"},
                                       {"check", "*.yml", "table", "validate"}};

void group_verbs(kvc::Verb program) {
  program.group("Run",
                {"run", "validate", "check", "bench", "plan", "status", "merge", "calibrate", "smooth", "search"});
  program.group("Results", {"table", "tables", "figure", "report", "serve", "query", "columns", "compare", "power",
                            "diff", "ls", "rm", "rescore", "export", "import"});
  program.group("Models and data", {"plugins", "model", "tasks", "data", "doctor"});
  program.group("For authors", {"plugin", "prompt", "score", "completion", "page"});
  program.group("Debugging", {"generate", "tokenize", "logits", "apply", "verify-run"});
}

int run(int argc, char** argv) {
  kvc::CommandLine line(
      "kvc", "Evaluates KV-cache compressors for LLMs: accuracy, measured size, memory and speed, from one YAML file.");
  auto program = line.program();
  program.require_subcommand();
  line.add_version(kvc::version_text);
  kvc::add_run_verb(program);
  kvc::add_bench_verb(program);
  kvc::add_plan_verb(program);
  kvc::add_calibrate_verb(program);
  kvc::add_table_verbs(program);
  kvc::add_figure_verb(program);
  kvc::add_list_verbs(program);
  kvc::add_status_verb(program);
  kvc::add_diff_verb(program);
  kvc::add_compare_verbs(program);
  kvc::add_check_verb(program);
  kvc::add_budget_verb(program);
  kvc::add_inspect_verbs(program);
  kvc::add_tasks_verb(program);
  kvc::add_model_verbs(program);
  kvc::add_data_verb(program);
  kvc::add_prompt_verb(program);
  kvc::add_score_verb(program);
  kvc::add_rescore_verb(program);
  kvc::add_merge_verb(program);
  kvc::add_plugin_verbs(program);
  kvc::add_try_verbs(program);
  kvc::add_search_verb(program);
  kvc::add_smooth_verb(program);
  kvc::add_report_verbs(program);
  kvc::add_exchange_verbs(program);
  kvc::add_verify_run_verb(program);
  kvc::add_page_verbs(line);
  group_verbs(program);
  line.add_aliases(kAliases);
  return line.run(argc, argv, kvc::kUsage);
}

int refuse(const std::exception& error, int code) {
  for (const auto& line : kvc::lines_of(error)) std::fprintf(stderr, "kvc: %s\n", line.c_str());
  return code;
}

// Where a library allocates in what may not throw (std::filesystem's iterators), or throws while it throws.
[[noreturn]] void end_in_a_line() {
  std::fputs("kvc: out of memory, or an error inside of a library that cannot be caught\n", stderr);
  std::_Exit(kvc::kEnvironment);
}

// The exit code; a line for each error.
int told(const std::function<int()>& action) {
  try {
    return action();
  } catch (const kvc::EnvironmentError& e) {
    return refuse(e, kvc::kEnvironment);
  } catch (const std::bad_alloc& e) {
    return refuse(e, kvc::kEnvironment);
  } catch (const std::exception& e) {
    return refuse(e, kvc::kUsage);
  }
}

}  // namespace

int main(int argc, char** argv) {
  ::setenv("KVC_GIT", kvc::kCommit, 0);  // what results say of the program, unless the launcher has said it
  kvc::open_standard_descriptors();
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond `ulimit -f` is then an error that can be told
  if (argc == 2 && std::string(argv[1]) == "worker") kvc::end_process(told(kvc::run_worker));
  if (argc == 2 && std::string(argv[1]) == "host") kvc::end_process(told(kvc::run_host));
  std::set_terminate(end_in_a_line);
  kvc::take_on_orphans();
  const int code = told([&] { return run(argc, argv); });
  kvc::end_orphans();
  kvc::end_process(kvc::end_standard_output(code));
}
