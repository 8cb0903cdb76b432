// The program's verbs. Each adds itself to the command line and returns an exit code when it is run.
#pragma once

#include <string>
#include <vector>

#include "command_line/command_line.h"

namespace kvc {

// Exit codes of every verb.
enum ExitCode : int {
  kOk = 0,
  kUsage = 2,        // bad arguments, files or values
  kEnvironment = 3,  // something the machine lacks or refuses
  kSomeFailed = 4,   // the run ended, but some samples failed
  kSuspect = 5,      // the run ended, but a cell or a plugin is not what it says
  kWorse = 5,        // a comparison's gate: a compressor is worse than was allowed
  kConflict = 5,     // a shard says something else than what was there
  kStopped = 75,     // a signal stopped a shard of a plan, what was done is there: it is to be started again
};

// 128 + n: Ctrl-C (130) or SIGTERM (143) ended a run early; what is stored stays.

void add_run_verb(Verb program);
void add_bench_verb(Verb program);
void add_plan_verb(Verb program);
void add_calibrate_verb(Verb program);
void add_table_verbs(Verb program);  // table, tables, query
void add_figure_verb(Verb program);
void add_list_verbs(Verb program);  // ls, rm
void add_status_verb(Verb program);
void add_diff_verb(Verb program);
void add_compare_verbs(Verb program);  // compare, power
void add_check_verb(Verb program);
void add_budget_verb(Verb program);
void add_inspect_verbs(Verb program);  // plugins, validate, doctor
void add_tasks_verb(Verb program);
void add_model_verbs(Verb program);  // model list, get, show
void add_data_verb(Verb program);
void add_prompt_verb(Verb program);
void add_score_verb(Verb program);
void add_rescore_verb(Verb program);
void add_merge_verb(Verb program);
void add_plugin_verbs(Verb program);  // plugin new, plugin verify
void add_try_verbs(Verb program);     // generate, tokenize, logits, apply
void add_search_verb(Verb program);
void add_smooth_verb(Verb program);
void add_exchange_verbs(Verb program);  // export, import
void add_report_verbs(Verb program);    // report, serve, columns
void add_verify_run_verb(Verb program);
void add_page_verbs(CommandLine& line);  // completion, page

// --wide, of the verbs that print a table.
void add_wide(Verb verb, bool& wide);

// --allow-plugins, of the verbs that run an experiment's plugins.
void add_allow_plugins(Verb verb, std::string& list);

// Runs one shard of a plan. shard: "I/N", or "" for what the batch system says. database: "": the plan's own place.
int run_planned_shard(const std::string& plan, const std::string& shard, const std::string& database,
                      const std::string& allow_plugins, bool verify);

// Runs the search of a file of kind search, and writes its winner to <name>-searched.yaml beside it.
int run_search_file(const std::string& file, const std::vector<std::string>& settings, const std::string& database,
                    const std::string& allow_plugins);

// Says that a signal ended the run early and how to go on; returns the exit code, 128 and the signal's number.
int report_interrupt(int signal, const std::string& database);

}  // namespace kvc
