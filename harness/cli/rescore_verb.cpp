// kvc rescore: what a database holds, scored again by the task files as they are.
#include <algorithm>
#include <cstdio>

#include "cli/verbs.h"
#include "kvc/check.h"
#include "run/paths.h"
#include "store/rescore.h"
#include "store/table.h"
#include "task/score_predictions.h"
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
    KVC_CHECK(fs::exists(path), "results database '", path, "': there is no such file");
    return path;
  }

  std::vector<std::string> tasks() {
    std::vector<std::string> all;
    auto select = store_.database().prepare("SELECT DISTINCT task FROM cell ORDER BY task");
    while (select.step()) all.push_back(select.text(0));
    for (const auto& task : a_.tasks) {
      KVC_CHECK(std::find(all.begin(), all.end(), task) != all.end(), "results database '", a_.database,
                "': ", unknown_name("task", task, all));
    }
    return a_.tasks.empty() ? all : a_.tasks;
  }

  std::vector<std::string> cells(const std::string& task) {
    std::vector<std::string> keys;
    auto select = store_.database().prepare("SELECT key FROM cell WHERE task = ? ORDER BY key");
    select.bind(1, task);
    while (select.step()) keys.push_back(select.text(0));
    return keys;
  }

  void rescore(const std::string& task) {
    const auto spec = load_task(find_task(find_paths().root / "tasks", task));
    std::vector<std::string> order;
    for (const auto& extractor : spec.extractors) order.push_back(extractor.name);
    if (spec.choices) order = spec.choices->scores;
    KVC_CHECK(a_.extractor.empty() || std::find(order.begin(), order.end(), a_.extractor) != order.end(), "task '", task,
              "': ", unknown_name("extractor", a_.extractor, order));
    RescoreCounts sum;
    const auto keys = cells(task);
    for (const auto& key : keys) {
      const auto counts = rescore_cell(
          store_.database(), key, order, [&](const auto& stored) { return scores_of(spec, stored); },
          [&](int64_t sample, const Error& error) {
            std::fprintf(stderr, "kvc: %s, cell %.12s, sample %lld: %s\n", task.c_str(), key.c_str(),
                         static_cast<long long>(sample), error.what());
          });
      sum.n_samples += counts.n_samples;
      sum.n_changed += counts.n_changed;
      sum.n_failed += counts.n_failed;
    }
    n_failed_ += sum.n_failed;
    table_.rows.push_back({task, static_cast<int64_t>(keys.size()), sum.n_samples, sum.n_changed, sum.n_failed});
  }

  bool is_asked(const std::string& name) const { return a_.extractor.empty() || a_.extractor == name; }

  std::vector<ScoreRow> choice_scores_of(const ChoiceSpec& spec, const StoredGeneration& stored) const {
    const auto choices = parse_choices_json(stored.generation);
    const auto gold = gold_choice(spec, stored.gold, choices.size(), concat("sample ", stored.sample));
    std::vector<ScoreRow> rows;
    for (const auto& name : spec.scores) {
      if (!is_asked(name)) continue;
      const auto score = score_choices(name, choices, gold);
      rows.push_back({name, score.answer, score.value});
    }
    return rows;
  }

  std::vector<ScoreRow> scores_of(const TaskSpec& spec, const StoredGeneration& stored) {
    if (spec.choices) return choice_scores_of(*spec.choices, stored);
    const auto gold = parse_gold(stored.gold, has_structured_gold(spec));
    std::vector<ScoreRow> rows;
    for (const auto& extractor : spec.extractors) {
      if (!is_asked(extractor.name)) continue;
      check_gold(extractor, gold);
      const auto answer = extract_answer(extractor, stored.generation);
      rows.push_back({extractor.name, answer, scorer_.score(extractor, answer, gold)});
    }
    return rows;
  }

  const RescoreArguments& a_;
  ResultStore store_;
  AnswerScorer scorer_;
  Table table_;
  int64_t n_failed_ = 0;
};

}  // namespace

void add_rescore_verb(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<RescoreArguments>();
  auto* verb =
      app.add_subcommand("rescore", "Scores stored generations again by the task files as they are; no model runs");
  verb->add_option("database", arguments->database, "results database")->required();
  verb->add_option("--task", arguments->tasks, "only this task; may be given again (default: all)")->allow_extra_args(false);
  verb->add_option("--extractor", arguments->extractor, "only this extractor of each task (default: all)");
  verb->callback([arguments, &action] { action = [arguments] { return RescoreRun(*arguments).run(); }; });
}

}  // namespace kvc
