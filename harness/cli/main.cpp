// kvc: evaluates KV-cache compressors. An experiment is a YAML file, a result a row in SQLite, a table a query.
#include <signal.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>

#include "cli/verbs.h"
#include "cli/version.h"
#include "kvc/check.h"
#include "text/message.h"
#include "wire/child_end.h"
#include "worker/worker.h"

namespace {

int run(int argc, char** argv) {
  kvc::CommandLine line(
      "kvc", "Evaluates KV-cache compressors: accuracy, measured bytes and memory of each, from one YAML file.");
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
  return line.run(argc, argv, kvc::kUsage);
}

int refuse(const std::exception& error, int code) {
  std::fprintf(stderr, "kvc: %s\n", kvc::one_line(kvc::said_by(error)).c_str());
  return code;
}

// Where a library allocates in what may not throw (std::filesystem's iterators), or throws while it throws.
[[noreturn]] void end_in_a_line() {
  std::fputs("kvc: out of memory, or an error inside of a library that cannot be caught\n", stderr);
  std::_Exit(kvc::kEnvironment);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond `ulimit -f` is then an error that can be told
  try {
    if (argc == 2 && std::string(argv[1]) == "worker") return kvc::run_worker();
    std::set_terminate(end_in_a_line);
    kvc::take_on_orphans();
    const int code = run(argc, argv);
    kvc::end_orphans();
    return code;
  } catch (const kvc::EnvironmentError& e) {
    return refuse(e, kvc::kEnvironment);
  } catch (const std::bad_alloc& e) {
    return refuse(e, kvc::kEnvironment);
  } catch (const std::exception& e) {
    return refuse(e, kvc::kUsage);
  }
}
