// kvc export, kvc import: results in the files of other programs, and theirs in our database.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/verbs.h"
#include "exchange/export.h"
#include "exchange/import.h"
#include "kvc/check.h"
#include "run/progress.h"
#include "store/result_store.h"
#include "text/message.h"

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

// Of each file that is read line by line.
OnBytes bytes_progress() {
  struct Shown {
    std::string file;
    std::optional<Progress> progress;
    ProgressState state;
  };
  auto shown = std::make_shared<Shown>();
  shown->state.unit = "MB";
  return [shown](const std::filesystem::path& file, int64_t n_bytes) {
    if (shown->file != file.string()) {
      shown->file = file.string();
      shown->progress.emplace();
      std::error_code unreadable;
      shown->state.n_total = static_cast<int64_t>(std::filesystem::file_size(file, unreadable)) / 1'000'000;
      shown->state.doing = file.filename().string();
    }
    shown->state.n_done = n_bytes / 1'000'000;
    if (shown->state.n_done >= shown->state.n_total) return shown->progress->make_room();
    const double so_far = shown->progress->seconds_so_far();
    shown->state.seconds_left = left_by_count(shown->state.n_done, shown->state.n_total, so_far);
    shown->progress->show(shown->state);
  };
}

int import_results(const ExchangeArguments& a) {
  auto store = ResultStore::open(a.database);
  bool all_well = true;
  const auto skip = [&](const std::string& why) {
    std::fprintf(stderr, "kvc: skipped: %s\n", one_line(why).c_str());
    all_well = false;
  };
  for (const auto& path : a.paths) {
    try {
      const auto n = a.format == "lm-eval" ? import_lm_eval(store.database(), path, bytes_progress())
                                           : import_kvpress(store.database(), path);
      for (const auto& why : n.skipped) skip(why);
      std::printf("%s: %ld values new, %ld changed, %ld as they were\n", path.c_str(), n.n_new, n.n_changed, n.n_equal);
      if (n.n_left_out > 0) {
        std::printf("%ld values of whole tasks left out: the means of their samples are there, and are the same\n",
                    n.n_left_out);
      }
    } catch (const EnvironmentError&) {
      throw;
    } catch (const Error& e) {
      skip(e.what());
    }
  }
  return all_well ? kOk : kUsage;
}

}  // namespace

void add_exchange_verbs(Verb program) {
  auto arguments = std::make_shared<ExchangeArguments>();
  auto out = program.add_subcommand("export", "Exports results in lm-eval's format, or flat with one line per sample");
  out.add_option("format", arguments->format, "lm-eval (writes a folder), csv or jsonl (writes a file)")
      .required()
      .choices({"lm-eval", "csv", "jsonl"});
  out.add_option("database,--db", arguments->database, "results database").required();
  out.add_option("-o,--output", arguments->output, "folder or file to write").required();
  out.add_option("--experiment", arguments->experiment, "only this experiment's cells").show_default();
  out.on_call([arguments] { return export_results(*arguments); });

  auto in = program.add_subcommand("import", "Imports results of lm-eval or kvpress into the table external_result");
  in.add_option("format", arguments->format, "lm-eval or kvpress").required().choices({"lm-eval", "kvpress"});
  in.add_option("paths", arguments->paths,
                "results (.json) or samples (.jsonl) of lm-eval, also packed by gzip, or folders of results")
      .required();
  in.add_option("--db", arguments->database, "results database; created if missing").required();
  in.on_call([arguments] { return import_results(*arguments); });
}

}  // namespace kvc
