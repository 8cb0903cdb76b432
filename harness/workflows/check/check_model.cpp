#include "check/check_model.h"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "check/check_results.h"
#include "check/check_tables.h"
#include "check/engine_flags.h"
#include "check/kv_card.h"
#include "check/type_pairs.h"
#include "checkpoint/model_config.h"
#include "experiment/model_hashes.h"
#include "experiment/open_compressor.h"
#include "experiment/task_names.h"
#include "kvc/check.h"
#include "model_lookup/model_path.h"
#include "plugin_loader/calibration.h"
#include "plugin_loader/plugin_library.h"
#include "report/report.h"
#include "run/estimate_run.h"
#include "run/run_experiment.h"
#include "tables/paper_table.h"
#include "text/files.h"
#include "text/hash_cache.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

// What may stand in a file's name.
std::string plain(std::string name) {
  for (char& c : name) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.';
    if (!is_plain) c = '_';
  }
  return name;
}

// "models/demo" -> "demo", "hf:org/name@main" -> "name_main"
std::string short_name(const std::string& model) {
  auto name = fs::path(model).lexically_normal().string();
  while (name.ends_with('/')) name.pop_back();
  return plain(fs::path(name).filename().string());
}

// A compressor that is named in place of a file's, as an experiment writes it in one line; "" for what names a model.
std::string compressor_named(const std::string& word, const Paths& paths) {
  if (is_model_path(below_root(paths, word))) return "";
  const auto colon = word.find(':');
  const auto name = word.substr(0, colon);
  const bool is_name = std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) || c == '_'; });
  const auto options = word.find_first_not_of(' ', colon == std::string::npos ? colon : colon + 1);
  if (is_name && options != std::string::npos && word[options] == '{') return concat("{", word, "}");
  for (const auto& plugin : find_plugins({paths.plugins})) {
    if (plugin.stem() == word) return word;
  }
  return compressor_of_type(word, paths.root);
}

// What a command line asks for, its names sorted into models and compressors.
struct CheckRequest : CheckModelArguments {
  std::vector<std::string> models;
  std::string compressors;  // a setting; "": the file's

  explicit CheckRequest(const CheckModelArguments& arguments) : CheckModelArguments(arguments) {
    const auto paths = find_paths();
    std::vector<std::string> named;
    for (const auto& name : names) {
      auto compressor = models.empty() ? "" : compressor_named(name, paths);
      if (compressor == "full") continue;  // the baseline is there anyway
      (compressor.empty() ? models : named).push_back(compressor.empty() ? name : compressor);
    }
    KVC_CHECK(named.empty() || as.empty(), "check: compressors are named and --as is given, expected one of the two");
    if (!named.empty()) compressors = compressors_setting(named);
  }
};

constexpr int64_t kQuickSizeTokens = 8192;  // filling caches with a long context takes as long as a quick check

// One model of a check.
class ModelCheck {
 public:
  // name: of its experiment
  ModelCheck(const CheckRequest& arguments, const std::string& model, const std::string& name)
      : a_(arguments), paths_(find_paths()), file_(experiment_file(paths_, arguments.config)) {
    found_.model_name = model;
    found_.settings = load_check_settings(file_);
    read_experiment(name);
  }

  // Finds the model, and fetches it where it is not there.
  void place() {
    place_model(experiment_);
    found_.config = load_model_config(experiment_.model_path);
    choose_context();
  }

  // After place(): the hashes, by which calibrations name their model.
  void identify() {
    found_.hashes = hash_model(experiment_.model_path);
    identity_ = model_identity(found_.hashes);
  }

  size_t n_presets() const { return experiment_.compressors.size(); }
  // Behind identify(). Throws Error where the compressor cannot be made for this model at all.
  OpenedCompressor open(size_t preset) const {
    const auto place = compressor_place(experiment_, paths_, found_.config.shape(), identity_);
    return open_compressors({experiment_.compressors[preset]}, place, Refused::kKept).front();
  }
  void set_refused(std::map<size_t, PresetResult> refused) { refused_ = std::move(refused); }

  CheckSize size() {
    const auto grid = make_grid();
    CheckSize size{.n_cells = grid.cells.size()};
    for (const auto& cell : grid.cells) size.n_samples += cell.record.n_samples;
    return size;
  }

  // Prints what run() would do, and how long.
  void print_plan(const std::string& database) {
    const auto grid = make_grid();
    announce(grid, database);
    std::printf("%s:\n", experiment_.model_name.c_str());
    for (const auto& cell : grid.cells) {
      if (cell.task == 0) std::printf("  %s\n", name_of(cell.record).c_str());
    }
    for (const auto& [i, preset] : refused_) {
      std::printf("  %s: refused: %s\n", preset.name.c_str(), preset.refused.c_str());
    }
    for (const auto& task : grid.tasks) {
      std::printf("  on %s: %zu samples\n", task.spec.name.c_str(), task.data.samples.size());
    }
    std::optional<ResultStore> store;
    if (fs::exists(database)) store = ResultStore::open_readonly(database);
    std::fputs(time_line(estimate_run(grid, experiment_, store ? &*store : nullptr), experiment_).c_str(), stdout);
  }

  // What a signal ends is not told.
  ModelFindings run(const std::string& database, CheckOutcome& outcome) {
    const auto asked = experiment_;
    auto store = open_store(database);
    std::optional<Grid> grid = make_grid(), further;
    int64_t n_failed = 0;
    do {
      if (further) grid = std::move(further);
      announce(*grid, database);
      const auto ran = run_grid(*grid, experiment_, store);
      outcome.signal = ran.signal, n_failed = ran.n_failed;
      if (outcome.signal != 0) return found_;
      judge(*grid, store);
      ++found_.n_looks;
      further = a_.until_decided ? with_more_text(asked, *grid) : std::nullopt;
    } while (further);
    outcome.n_failed += n_failed;
    found_.keys = probe_keys(*grid, store, outcome);
    if (outcome.signal != 0) return found_;
    pair_presets(store.database(), found_.presets);
    for (const auto& [i, preset] : refused_) {
      found_.presets.insert(found_.presets.begin() + static_cast<std::ptrdiff_t>(i), preset);
    }
    return found_;
  }

 private:
  static int64_t n_text_windows(const Grid& grid) {
    int64_t n = 0;
    for (const auto& task : grid.tasks) n += task.spec.likelihood ? static_cast<int64_t>(task.data.samples.size()) : 0;
    return n;
  }

  void judge(const Grid& grid, ResultStore& store) {
    const auto cells = checked_cells(grid);
    put_bytes(cells, grid.worker.compressors, found_.config.shape(), found_.n_size_tokens, store);
    found_.presets = check_results(cells, found_.settings, store.database(), found_.n_size_tokens);
    found_.tasks = cells.tasks;
  }

  // The grid with more windows, if they may decide an open verdict and the texts have them.
  std::optional<Grid> with_more_text(const Experiment& asked, const Grid& grid) {
    const int64_t limit = asked.limit ? limit_to_decide(found_.presets, *experiment_.limit, *asked.limit) : 0;
    if (limit == 0) return std::nullopt;
    experiment_ = asked;
    experiment_.limit = limit;
    auto further = make_grid();
    if (n_text_windows(further) == n_text_windows(grid)) return std::nullopt;
    return further;
  }

  Grid make_grid() {
    make_texts(experiment_, paths_);
    for (auto r = refused_.rbegin(); r != refused_.rend(); ++r) {
      experiment_.compressors.erase(experiment_.compressors.begin() + static_cast<std::ptrdiff_t>(r->first));
    }
    choose_tasks(found_.settings, found_.context, experiment_.model_path, paths_, experiment_);
    auto grid = expand_grid(experiment_, paths_);
    KVC_CHECK(grid.left_out.empty(), grid.left_out.front());
    baseline_of(grid);  // or says that there is none, before anything runs
    return grid;
  }

  void read_experiment(const std::string& name) {
    std::vector<std::string> settings;
    const auto& tasks = found_.settings.quick_tasks;
    if (a_.quick) settings.push_back(concat("limit=", found_.settings.quick_limit));
    if (a_.quick && !tasks.empty()) settings.push_back("tasks=" + nlohmann::json(tasks).dump());
    const auto of_engines = engine_settings(a_.as, paths_.root);
    settings.insert(settings.end(), of_engines.begin(), of_engines.end());
    if (!a_.compressors.empty()) settings.push_back(a_.compressors);
    settings.insert(settings.end(), a_.settings.begin(), a_.settings.end());
    experiment_ = load_for_model(file_, std::move(settings), found_.model_name, name, a_.texts);
    experiment_.allow_plugins = a_.allow_plugins;
    if (a_.pairs) experiment_.compressors = type_pairs(experiment_.compressors);
    found_.prefill = experiment_.prefill;
    if (a_.quick) found_.settings.n_lengths = found_.settings.quick_n_lengths;
  }

  void choose_context() {
    const int64_t most = found_.config.max_position_embeddings;
    KVC_CHECK(a_.context <= most, "--context ", a_.context, ": the model's context has ", most, " tokens");
    const auto& settings = found_.settings;
    const int64_t usual = a_.quick ? settings.quick_context.value_or(settings.context) : settings.context;
    found_.context = a_.context > 0 ? a_.context : std::min(usual, most);
    found_.n_size_tokens = a_.quick ? std::min(most, std::max(found_.context, kQuickSizeTokens)) : most;
  }

  void announce(const Grid& grid, const std::string& database) const {
    int64_t n_prompt = 0, n_decoded = 0;
    for (const auto& task : grid.tasks) {
      const auto n = static_cast<int64_t>(task.data.samples.size());
      n_prompt += n * (task.spec.likelihood ? task.spec.likelihood->prompt_tokens : found_.context);
      n_decoded += n * task.spec.max_new_tokens * static_cast<int64_t>(grid.worker.compressors.size());
    }
    if (found_.prefill.chunk > 0) n_prompt *= static_cast<int64_t>(grid.worker.compressors.size());
    std::fprintf(stderr,
                 "%s: %zu compressors, %zu tasks up to %ld tokens, database %s; up to %ld prompt tokens to prefill and "
                 "%ld tokens to decode\n",
                 experiment_.model_name.c_str(), grid.worker.compressors.size(), grid.tasks.size(), found_.context,
                 database.c_str(), n_prompt, n_decoded);
  }

  // The keys of the longest text, from a probe of the baseline, which has the model's own.
  KeyChannels probe_keys(const Grid& grid, ResultStore& store, CheckOutcome& outcome) {
    auto probe = experiment_;
    probe.kind = RunKind::probe;
    probe.prefill = {};
    probe.probe.measures = {"channel_mean_abs"};
    probe.limit = 1;
    probe.workers = 1, probe.threads = experiment_.workers * experiment_.threads;  // one prompt: on all of them
    for (const auto& task : grid.tasks) {
      if (task.spec.likelihood) probe.tasks = {task.spec.name};
    }
    probe.compressors = {experiment_.compressors[baseline_of(grid)]};
    const auto probed = expand_grid(probe, paths_);
    outcome.signal = run_grid(probed, probe, store).signal;
    return key_channels(store.database(), probed.cells.front().record.key, found_.settings.outlier_channel);
  }

  const CheckRequest& a_;
  const Paths paths_;
  const fs::path file_;
  Experiment experiment_;
  std::string identity_;
  std::map<size_t, PresetResult> refused_;  // by number in the file
  ModelFindings found_;
};

// Each with a name of its own: results of one name would mix.
std::vector<std::string> names_of(const std::vector<std::string>& models) {
  std::vector<std::string> names;
  for (const auto& model : models) {
    const auto alike = [&](const auto& other) { return short_name(other) == short_name(model); };
    KVC_CHECK(std::count(models.begin(), models.end(), model) == 1, "check: model '", model, "' is named twice");
    const bool is_short = std::count_if(models.begin(), models.end(), alike) == 1;
    names.push_back("check-" + (is_short ? short_name(model) : plain(model)));
  }
  return names;
}

void write_page(const CheckModelArguments& arguments, const std::string& database, const std::string& experiment,
                std::vector<Table> tables) {
  if (arguments.output.empty()) return;
  ReportOptions options;
  options.experiment = experiment;
  options.with_suspects = true;
  options.tables = std::move(tables);
  options.tables_heading = "Verdicts";
  auto store = open_store(database);
  write_file(arguments.output, make_report(store.database(), options).html);
  std::fprintf(stderr, "page: %s\n", arguments.output.c_str());
}

// The command line that makes the same check.
std::vector<std::string> command_of(const CheckModelArguments& arguments) {
  std::vector<std::string> words{"kvc", "check"};
  const auto in_shell = [](const std::string& value) {
    const bool is_plain = std::ranges::all_of(value, [](unsigned char c) { return c > ' ' && c != '\'' && c != '*'; });
    return is_plain ? value : concat("'", value, "'");
  };
  for (const auto& name : arguments.names) words.push_back(in_shell(name));
  const auto add = [&](const char* option, const std::string& value) {
    words.insert(words.end(), {option, in_shell(value)});
  };
  if (arguments.quick) words.emplace_back("--quick");
  if (arguments.until_decided) words.emplace_back("--until-decided");
  if (arguments.pairs) words.emplace_back("--pairs");
  if (arguments.config != CheckModelArguments().config) add("--config", arguments.config);
  if (arguments.context > 0) add("--context", concat(arguments.context));
  for (const auto& text : arguments.texts) add("--text", text);
  for (const auto& flags : arguments.as) add("--as", flags);
  for (const auto& setting : arguments.settings) add("--set", setting);
  return words;
}

// In the format asked for; `tables`: as Markdown shows them, the first as csv does.
void show(const CheckModelArguments& arguments, const std::vector<ModelFindings>& found,
          const std::vector<Table>& tables, CheckOutcome& outcome) {
  if (arguments.format == "json") {
    std::printf("%s\n", kv_card(found, command_of(arguments)).dump(2).c_str());
  } else if (arguments.format == "csv") {
    std::fputs(write_csv(tables.front()).c_str(), stdout);
  } else if (arguments.format == "latex") {
    std::fputs(write_latex(as_paper_table(for_paper(tables.front())), false).c_str(), stdout);
  } else {
    for (size_t i = 0; i < tables.size(); ++i) {
      std::fputs(((i > 0 ? "\n" : "") + write_markdown(tables[i])).c_str(), stdout);
    }
  }
  if (!arguments.badge.empty()) write_file(arguments.badge, badge_svg(found));
  outcome.over = over_limits(found, read_loss_limits(arguments.fail_over));
}

CheckOutcome check_one(const CheckRequest& arguments) {
  const auto name = names_of(arguments.models).front();
  CheckOutcome outcome{database_of(arguments.database, "", name)};
  ModelCheck check(arguments, arguments.models.front(), name);
  check.place();
  check.identify();
  if (arguments.dry_run) return check.print_plan(outcome.database), outcome;
  const auto found = check.run(outcome.database, outcome);
  if (outcome.signal != 0) return outcome;
  std::vector tables{verdict_table(found), length_table(found), tail_table(found), paired_table(found)};
  if (arguments.pairs) tables.insert(tables.begin(), pair_table(found));
  show(arguments, {found}, tables, outcome);
  write_page(arguments, outcome.database, name, tables);
  return outcome;
}

// Several models, of which one that throws costs its own column.
class ModelChecks {
 public:
  explicit ModelChecks(const CheckRequest& arguments) : a_(arguments), names_(names_of(arguments.models)) {
    for (size_t m = 0; m < names_.size(); ++m) checks_.emplace_back(arguments, arguments.models[m], names_[m]);
    found_.resize(names_.size());
  }

  CheckOutcome run() {
    std::string database = "check";
    for (const auto& name : names_) database += name.substr(std::string("check").size());
    outcome_.database = database_of(a_.database, "", database);
    for_each_model([&](size_t m) {
      checks_[m].place();
      checks_[m].identify();
    });
    refuse();
    if (a_.dry_run) {
      for_each_model([&](size_t m) { checks_[m].print_plan(outcome_.database); });
      return outcome_;
    }
    for_each_model([&](size_t m) {
      if (outcome_.signal == 0) found_[m] = checks_[m].run(outcome_.database, outcome_);
    });
    if (outcome_.signal == 0) show();
    return outcome_;
  }

 private:
  // Those that still can be checked.
  void for_each_model(const std::function<void(size_t)>& act) {
    for (size_t m = 0; m < checks_.size(); ++m) {
      if (!found_[m].error.empty()) continue;
      try {
        act(m);
      } catch (const Error& e) {
        found_[m] = {};
        found_[m].model_name = a_.models[m];
        found_[m].error = e.what();
        std::fprintf(stderr, "%s: not checked: %s\n", a_.models[m].c_str(), e.what());
        if (++outcome_.n_unchecked == static_cast<int64_t>(checks_.size())) throw;
      }
    }
  }

  // A compressor that cannot be made for some of the models is refused there; for none of them, it is the file that is
  // wrong.
  void refuse() {
    std::vector<std::map<size_t, PresetResult>> refused(checks_.size());
    for (size_t i = 0; i < checks_.front().n_presets(); ++i) {
      std::string name;
      std::exception_ptr first_error;
      for (size_t m = 0; m < checks_.size(); ++m) {
        if (!found_[m].error.empty()) continue;
        try {
          const auto opened = checks_[m].open(i);
          name = name_of(opened.record);
          if (!opened.refused.empty()) refused[m][i].refused = opened.refused;
        } catch (const EnvironmentError&) {
          throw;
        } catch (const Error& e) {
          if (!first_error) first_error = std::current_exception();
          refused[m][i].refused = e.what();
        }
      }
      if (name.empty()) std::rethrow_exception(first_error);
      for (auto& of_model : refused) {
        if (of_model.contains(i)) of_model[i].name = name;
      }
    }
    for (size_t m = 0; m < checks_.size(); ++m) checks_[m].set_refused(std::move(refused[m]));
  }

  void show() {
    const auto matrix = verdict_matrix(found_), keys = key_table(found_);
    std::vector<Table> tables{matrix, keys};
    kvc::show(a_, found_, tables, outcome_);
    for (auto found : found_) {
      std::erase_if(found.presets, [](const auto& preset) { return !preset.refused.empty(); });
      if (found.error.empty()) tables.insert(tables.end(), {verdict_table(found), tail_table(found)});
    }
    write_page(a_, outcome_.database, "all", std::move(tables));
  }

  const CheckRequest& a_;
  const std::vector<std::string> names_;
  std::deque<ModelCheck> checks_;
  std::vector<ModelFindings> found_;
  CheckOutcome outcome_;
};

}  // namespace

CheckSize check_size(const CheckModelArguments& arguments) {
  const CheckRequest request(arguments);
  ModelCheck check(request, request.models.front(), names_of(request.models).front());
  check.place();
  check.identify();
  return check.size();
}

CheckOutcome check_models(const CheckModelArguments& arguments) {
  read_loss_limits(arguments.fail_over);  // what is wrong there is said before anything runs
  const CheckRequest request(arguments);
  return request.models.size() == 1 ? check_one(request) : ModelChecks(request).run();
}

}  // namespace kvc
