// kvc export, kvc import: results in the files of other programs, and theirs in our database.
#include <chrono>
#include <cstdio>

#include "cli/verbs.h"
#include "exchange/export.h"
#include "exchange/import.h"
#include "kvc/check.h"
#include "store/result_store.h"

namespace kvc {
namespace {

struct ExchangeArguments {
  std::string format, database, output, experiment = "all";
  std::vector<std::string> paths;
};

int export_results(const ExchangeArguments& a) {
  auto store = ResultStore::open_readonly(a.database);
  auto& db = store.database();
  if (a.format != "lm-eval") {
    const auto n =
        a.format == "csv" ? export_csv(db, a.experiment, a.output) : export_jsonl(db, a.experiment, a.output);
    std::printf("%s: %ld samples\n", a.output.c_str(), n);
    return kOk;
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  for (const auto& made : export_lm_eval(db, a.experiment, a.output, std::chrono::duration<double>(now).count())) {
    std::printf("%s: %ld tasks, %ld samples, %ld failed ones left out\n", made.folder.c_str(), made.n_tasks,
                made.n_samples, made.n_left_out);
  }
  return kOk;
}

int import_results(const ExchangeArguments& a) {
  auto store = ResultStore::open(a.database);
  const auto read = a.format == "lm-eval" ? import_lm_eval : import_kvpress;
  for (const auto& path : a.paths) {
    const auto n = read(store.database(), path);
    std::printf("%s: %ld values new, %ld changed, %ld as they were\n", path.c_str(), n.n_new, n.n_changed, n.n_equal);
  }
  return kOk;
}

}  // namespace

void add_exchange_verbs(Verb program) {
  auto arguments = std::make_shared<ExchangeArguments>();
  auto out = program.add_subcommand("export", "Writes results as lm-eval does, or flat: one line a sample");
  out.add_option("format", arguments->format, "lm-eval (into a folder), csv or jsonl (a file)")
      .required()
      .choices({"lm-eval", "csv", "jsonl"});
  out.add_option("database", arguments->database, "results database").required();
  out.add_option("-o,--output", arguments->output, "the folder or file").required();
  out.add_option("--experiment", arguments->experiment, "only this experiment's cells").show_default();
  out.on_call([arguments] { return export_results(*arguments); });

  auto in =
      program.add_subcommand("import", "Reads results of lm-eval or kvpress as others' numbers (external_result)");
  in.add_option("format", arguments->format, "lm-eval or kvpress").required().choices({"lm-eval", "kvpress"});
  in.add_option("paths", arguments->paths, "results_*.json of lm-eval, or folders of results").required();
  in.add_option("--db", arguments->database, "results database; made where there is none").required();
  in.on_call([arguments] { return import_results(*arguments); });
}

}  // namespace kvc
