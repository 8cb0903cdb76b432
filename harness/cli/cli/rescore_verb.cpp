// kvc rescore: what a database holds, scored again by the task files as they are.
#include <algorithm>
#include <cstdio>

#include "cli/verbs.h"
#include "experiment/paths.h"
#include "kvc/check.h"
#include "render/table.h"
#include "run/sample_record.h"
#include "store/rescore.h"
#include "task/dataset.h"
#include "text/nearest.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

struct RescoreArguments {
  std::string database, extractor;
  std::vector<std::string> tasks;
};

class RescoreRun {
 public:
  explicit RescoreRun(const RescoreArguments& arguments)
      : a_(arguments), store_(ResultStore::open(check_there(arguments.database))) {
    using Align = TableColumn::Align;
    table_.columns = {{"task"},
                      {"cells", Align::kRight},
                      {"samples", Align::kRight},
                      {"changed scores", Align::kRight},
                      {"failed", Align::kRight}};
  }

  // A task that cannot be scored is reported, and the others go on.
  int run() {
    for (const auto& task : tasks()) {
      try {
        rescore(task);
      } catch (const EnvironmentError&) {
        throw;
      } catch (const Error& error) {
        std::fprintf(stderr, "kvc: %s\n", error.what());
        ++n_failed_;
      }
    }
    std::fputs(write_markdown(table_).c_str(), stdout);
    return n_failed_ == 0 ? kOk : kSomeFailed;
  }

 private:
  static const std::string& check_there(const std::string& path) {
    KVC_CHECK(fs::exists(path), "results database '", path, "': no such file");
    return path;
  }

  std::vector<std::string> tasks() {
    std::vector<std::string> all;
    auto select = store_.database().prepare("SELECT DISTINCT task FROM cell WHERE kind = 'eval' ORDER BY task");
    while (select.step()) all.push_back(select.text(0));
    for (const auto& task : a_.tasks) {
      KVC_CHECK(std::find(all.begin(), all.end(), task) != all.end(), "results database '", a_.database,
                "': ", unknown_name("task", task, all));
    }
    return a_.tasks.empty() ? all : a_.tasks;
  }

  std::vector<std::string> cells(const std::string& task) {
    std::vector<std::string> keys;
    auto select = store_.database().prepare("SELECT key FROM cell WHERE task = ? AND kind = 'eval' ORDER BY key");
    select.bind(1, task);
    while (select.step()) keys.push_back(select.text(0));
    return keys;
  }

  void rescore(const std::string& task) {
    auto spec = load_task(find_task(find_paths().root / "tasks", task));
    std::vector<std::string> order;
    for (const auto& extractor : spec.extractors) order.push_back(extractor.name);
    if (spec.choices) order = spec.choices->scores;
    if (spec.likelihood) {
      for (const auto& score : likelihood_scores({1, 0, 0, 0})) order.push_back(score.name);
    }
    KVC_CHECK(a_.extractor.empty() || std::find(order.begin(), order.end(), a_.extractor) != order.end(), "task '",
              task, "': ", unknown_name("extractor", a_.extractor, order));
    const auto scoring = a_.extractor.empty() ? scoring_json(spec) : "";  // of one extractor: not all scores are by it
    if (!a_.extractor.empty()) keep_asked(spec);
    RescoreCounts sum;
    const auto keys = cells(task);
    for (const auto& key : keys) {
      const auto counts = rescore_cell(
          store_.database(), key, order,
          [&](const auto& stored) { return scores_of(spec, stored.generation, stored.gold, scorer_); },
          [&](int64_t sample, const Error& error) {
            std::fprintf(stderr, "kvc: %s, cell %.12s, sample %ld: %s\n", task.c_str(), key.c_str(), sample,
                         error.what());
          },
          scoring);
      sum.n_samples += counts.n_samples;
      sum.n_changed += counts.n_changed;
      sum.n_failed += counts.n_failed;
    }
    n_failed_ += sum.n_failed;
    table_.rows.push_back({task, static_cast<int64_t>(keys.size()), sum.n_samples, sum.n_changed, sum.n_failed});
  }

  void keep_asked(TaskSpec& spec) const {
    std::erase_if(spec.extractors, [&](const auto& extractor) { return extractor.name != a_.extractor; });
    if (spec.choices) spec.choices->scores = {a_.extractor};
  }

  const RescoreArguments& a_;
  ResultStore store_;
  AnswerScorer scorer_;
  Table table_;
  int64_t n_failed_ = 0;
};

}  // namespace

void add_rescore_verb(Verb program) {
  auto arguments = std::make_shared<RescoreArguments>();
  auto verb =
      program.add_subcommand("rescore", "Scores stored generations again with the current task files; no model is run");
  verb.add_option("database,--db", arguments->database, "results database").required();
  verb.add_option("--task", arguments->tasks, "only this task; may be repeated (default: all)").one_each();
  verb.add_option("--extractor", arguments->extractor, "only this extractor of each task (default: all)");
  verb.on_call([arguments] { return RescoreRun(*arguments).run(); });
}

}  // namespace kvc
