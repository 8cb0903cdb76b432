// kvc score: what any model generated, scored by a task's rules.
#include <algorithm>
#include <cstdio>

#include "cli/verbs.h"
#include "experiment/paths.h"
#include "kvc/check.h"
#include "predictions/choice_predictions.h"
#include "predictions/score_predictions.h"
#include "render/table.h"
#include "stats/interval.h"
#include "text/nearest.h"
#include "text/utf8.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

struct ScoreArguments {
  std::string task, file, extractor;
  bool json = false, per_sample = false;
};

struct ScoreJob {
  TaskId task;
  fs::path file;
};

// TASK and its file; or a suite and a folder: each of its tasks whose <name>.jsonl is there.
std::vector<ScoreJob> jobs_of(const ScoreArguments& a) {
  const auto tasks = find_paths().root / "tasks";
  if (a.task.find('/') != std::string::npos || !fs::is_directory(tasks / a.task)) {
    return {{find_task(tasks, a.task), a.file}};
  }
  KVC_CHECK(fs::is_directory(a.file), "'", a.task, "' is a suite, and '", a.file,
            "' is not a folder: a suite's predictions are <folder>/<task>.jsonl");
  std::vector<ScoreJob> jobs;
  for (const auto& task : find_tasks(tasks)) {
    const auto name = task.name();
    if (!name.starts_with(a.task + "/")) continue;
    const auto file = fs::path(a.file) / (name.substr(a.task.size() + 1) + ".jsonl");
    if (fs::exists(file)) jobs.push_back({task, file});
  }
  KVC_CHECK(!jobs.empty(), "folder '", a.file, "' has no <task>.jsonl of the suite '", a.task, "'");
  return jobs;
}

// The extractors that were asked for: the named one, the headline for --json, else all.
std::vector<const Extractor*> chosen(const TaskSpec& spec, const ScoreArguments& a) {
  std::vector<const Extractor*> extractors;
  std::vector<std::string> names;
  for (const auto& extractor : spec.extractors) {
    names.push_back(extractor.name);
    if (a.extractor.empty() || a.extractor == extractor.name) extractors.push_back(&extractor);
  }
  KVC_CHECK(!extractors.empty(), "task '", spec.name, "': ", unknown_name("extractor", a.extractor, names));
  if (a.json) extractors.resize(1);
  return extractors;
}

// The same of a task that chooses; what such samples cannot say is named.
std::vector<std::string> chosen_scores(const TaskSpec& spec, const ScoreArguments& a) {
  const auto known = scores_of_likelihoods(*spec.choices);
  KVC_CHECK(!known.empty(), "task '", spec.name, "': its scores ", join(spec.choices->scores),
            " need token counts, which samples of log-likelihoods do not have");
  if (a.json && a.extractor.empty()) return {known.front()};
  if (a.extractor.empty()) return known;
  KVC_CHECK(std::find(known.begin(), known.end(), a.extractor) != known.end(), "task '", spec.name,
            "': ", unknown_name("score", a.extractor, known));
  return {a.extractor};
}

class ScoreRun {
 public:
  explicit ScoreRun(const ScoreArguments& arguments) : a_(arguments) {
    using Align = TableColumn::Align;
    table_.columns = {{"task"},
                      {"extractor"},
                      {"metric"},
                      {"score", Align::kRight, "%", 2},
                      {"95 % interval", Align::kRight},
                      {"n", Align::kRight},
                      {"no answer", Align::kRight}};
  }

  // A file or an extractor that fails is reported, and the others go on.
  int run() {
    for (const auto& job : jobs_of(a_)) {
      guarded([&] { score(job); });
    }
    if (!a_.json && !a_.per_sample && !table_.rows.empty()) std::fputs(write_markdown(table_).c_str(), stdout);
    return n_failed_ == 0 ? kOk : kUsage;
  }

 private:
  template <class Work>
  void guarded(Work work) {
    try {
      work();
    } catch (const EnvironmentError&) {
      throw;
    } catch (const Error& error) {
      std::fprintf(stderr, "kvc: %s\n", error.what());
      ++n_failed_;
    }
  }

  static std::vector<Prediction> read(const TaskSpec& spec, const fs::path& file) {
    auto [samples, n_other_filters] = read_predictions(spec, file);
    if (n_other_filters > 0) {
      std::fprintf(stderr, "kvc: %s: %zu samples; %ld lines left out: other filters of the same responses\n",
                   file.c_str(), samples.size(), n_other_filters);
    }
    return std::move(samples);
  }

  void score(const ScoreJob& job) {
    const auto spec = load_task(job.task);
    KVC_CHECK(!spec.likelihood, "task '", spec.name, "' scores running text: there are no answers to score");
    if (spec.choices) return score_choice_task(spec, job.file);
    const auto extractors = chosen(spec, a_);
    const auto predictions = read(spec, job.file);
    for (const auto* extractor : extractors) {
      guarded([&] { print(score_predictions(spec, *extractor, predictions, job.file, scorer_)); });
    }
  }

  void score_choice_task(const TaskSpec& spec, const fs::path& file) {
    const auto names = chosen_scores(spec, a_);
    const auto predictions = read(spec, file);
    for (const auto& name : names) {
      guarded([&] { print(score_choice_predictions(spec, name, predictions, file)); });
    }
  }

  void print(const PredictionScores& scores) {
    if (a_.json) {
      std::printf("%s\n", scores_json(scores).c_str());
      return;
    }
    const auto n = static_cast<int64_t>(scores.samples.size());
    const auto interval = interval_of(scores);
    char bounds[64];
    std::snprintf(bounds, sizeof bounds, "[%.2f, %.2f]", 100 * interval.low, 100 * interval.high);
    if (a_.per_sample) {
      print_samples(scores);
      std::printf("%s, %s: %.2f %% %s, n %ld, no answer %ld\n", scores.task.c_str(), scores.extractor.c_str(),
                  scores.percent(), bounds, n, scores.n_no_answer);
      return;
    }
    table_.rows.push_back(
        {scores.task, scores.extractor, scores.metric, scores.percent(), std::string(bounds), n, scores.n_no_answer});
  }

  static Interval interval_of(const PredictionScores& scores) {
    std::vector<double> values;
    for (const auto& sample : scores.samples) values.push_back(sample.score);
    return score_interval(values);
  }

  // line, score and answer of each prediction, separated by tabs
  static void print_samples(const PredictionScores& scores) {
    for (const auto& sample : scores.samples) {
      std::printf("%ld\t%.17g\t%s\n", sample.line, sample.score,
                  sample.answer ? in_quotes(*sample.answer).c_str() : "no answer");
    }
  }

  const ScoreArguments& a_;
  AnswerScorer scorer_;
  Table table_;
  int n_failed_ = 0;
};

}  // namespace

void add_score_verb(Verb program) {
  auto arguments = std::make_shared<ScoreArguments>();
  auto verb = program.add_subcommand("score", "Scores predictions of any program with a task's extractors and metric");
  verb.add_option("task", arguments->task, "task, or suite for a folder of <task>.jsonl").required();
  verb.add_option("predictions", arguments->file,
                  "JSON Lines from LongBench, lm-eval, or with `generation` and `gold`; multiple choice: lm-eval only")
      .required();
  verb.add_option("--extractor", arguments->extractor, "only this extractor (default: all; with --json the first)");
  verb.add_flag("--json", arguments->json, "one JSON object per task, score in percent");
  verb.add_flag("--per-sample", arguments->per_sample, "for each sample: line, score from 0 to 1, extracted answer");
  verb.on_call([arguments] { return ScoreRun(*arguments).run(); });
}

}  // namespace kvc
