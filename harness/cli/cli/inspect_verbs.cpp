#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "check/check_model.h"
#include "check/engine_flags.h"
#include "checkpoint/model_config.h"
#include "cli/experiment_notes.h"
#include "cli/verbs.h"
#include "experiment/bench_experiment.h"
#include "experiment/grid.h"
#include "experiment/open_compressor.h"
#include "experiment/provenance.h"
#include "experiment/task_names.h"
#include "kvc/check.h"
#include "kvc/plugin.h"
#include "model_lookup/model_path.h"
#include "model_lookup/plan_model.h"
#include "model_lookup/window_text.h"
#include "plugin_loader/plugin_library.h"
#include "render/terminal.h"
#include "run/progress.h"
#include "run/run_bench.h"
#include "search/search_layers.h"
#include "task/dataset.h"
#include "task/task_inventory.h"
#include "text/message.h"
#include "text/nearest.h"
#include "text/several_errors.h"
#include "tokenizer/tokenizer.h"
#include "wire/forked_child.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string properties(const Capabilities& capabilities) {
  std::vector<std::string> kept;
  if (capabilities.one_by_one_same) kept.push_back("incremental append is bit-identical to one-shot append");
  if (capabilities.prefix_local) kept.push_back("codes of a prefix do not depend on later tokens");
  if (capabilities.estimates) kept.push_back("attention scores are unbiased estimates (depends on options)");
  kept.push_back(capabilities.chunked_prompt ? "takes prompts in chunks" : "needs the whole prompt at once");
  return join(kept, "; ");
}

std::string place_in_compositions(const Capabilities& capabilities) {
  std::vector<std::string> facts;
  if (capabilities.evicts) facts.push_back("evicts tokens");
  if (capabilities.splits) facts.push_back("can compress K only or V only");
  if (capabilities.turns_keys) facts.push_back("needs keys before RoPE");
  return join(facts, "; ");
}

std::string padded(const std::string& text, size_t width) {
  return text.size() < width ? text + std::string(width - text.size(), ' ') : text;
}

std::string description(const PluginLibrary& library) {
  const auto& d = library.descriptor();
  auto text = concat(
      d.name, ": ", d.summary, "\n  source      ", d.source, "\n  deviations  ", d.deviations, "\n  storage     ",
      d.capabilities.simulated ? "simulated" : "packed", ", ", d.capabilities.lossy ? "lossy" : "not lossy",
      "\n  properties  ", properties(d.capabilities), "\n  composition ", place_in_compositions(d.capabilities),
      "\n  devices     ", *d.capabilities.devices ? concat("cpu, because ", d.capabilities.devices) : "cpu, GPUs",
      "\n  file        ", library.file().string(), "\n  sha256      ", library.sha256(), "\n  options\n");
  for (const auto& option : library.describe_options()) {
    text +=
        concat("    ", padded(option.name, 16), " ", padded(option.type, 8), " default ",
               padded(option.default_value.dump(), 8), " allowed ", padded(option.allowed, 22), " ", option.help, "\n");
  }
  return text;
}

std::vector<std::string> names_of(const std::vector<fs::path>& files) {
  std::vector<std::string> names;
  for (const auto& file : files) names.push_back(file.string());
  return names;
}

int list_plugins(const std::string& name, const std::vector<std::string>& plugin_path) {
  const auto folders = plugin_folders(plugin_path, find_paths());
  if (!name.empty()) {
    const auto file = name.ends_with(".so") ? fs::path(name) : find_plugin(name, folders);
    const auto said = in_child({file.string()}, [&](size_t) { return json(description(PluginLibrary(file))); });
    std::fputs(said.front().get<std::string>().c_str(), stdout);
    return kOk;
  }
  const auto files = find_plugins(folders);
  int code = kOk;
  in_child(
      names_of(files), [&](size_t i) { return json(PluginLibrary(files[i]).descriptor().summary); },
      [&](size_t i, const ChildAnswer& answer) {
        const auto line = answer.error.empty() ? answer.value.get<std::string>() : answer.error;
        std::printf("%s %s\n", padded(files[i].stem(), 14).c_str(), line.c_str());
        if (!answer.error.empty()) code = kUsage;
      });
  return code;
}

void check_options(const CompressorChoice& choice, const fs::path& folder, const std::vector<fs::path>& folders) {
  for (const auto& part : choice.parts) check_options(part, folder, folders);
  if (choice.kind != CompressorChoice::Kind::plugin) return;
  try {
    const PluginLibrary library(find_plugin(choice.plugin, folders));
    library.make(library.with_files_from(folder, choice.options));
  } catch (const Error& e) {
    throw Error(choice.where + ": error: " + e.what());
  }
}

// What of an experiment does not depend on its model's shape, context and tokenizer.
template <class AnyExperiment>
int validate_without_model(const std::string& file, const std::string& model, const AnyExperiment& experiment,
                           const Paths& paths) {
  const auto folders = plugin_folders(experiment.plugin_path, paths);
  std::vector<std::string> names;
  for (const auto& choice : experiment.compressors) names.push_back(name_in_errors(choice));
  in_child(names, [&](size_t i) {
    check_options(experiment.compressors[i], experiment.folder, folders);
    return json();
  });
  std::printf("%s is valid, except for checks that need its model: %s is not downloaded yet; a run would fetch it\n",
              file.c_str(), model.c_str());
  return kOk;
}

void check_tasks(const Experiment& experiment, const Paths& paths) {
  for (const auto& name : experiment.tasks) {
    for (const auto& id : tasks_of(name, paths)) {
      auto spec = load_task(id);
      if (spec.likelihood && !experiment.texts.empty()) read_instead(experiment.texts, spec);
      count_samples(spec, data_folder(experiment.data_dir));
    }
  }
}

int validate(const std::string& file, const std::vector<std::string>& settings) {
  const auto paths = find_paths();
  const auto path = experiment_file(paths, file);
  const auto kind = experiment_kind(path, settings);
  if (is_timed(kind)) {
    auto experiment = load_bench(path, settings);
    const auto& model = experiment.subject.model;
    if (!is_model_here(model)) return validate_without_model(file, model, experiment, paths);
    place_model(experiment);
    const auto cells = expand_bench(experiment, paths);
    std::printf("%s is valid: %zu cells of kind %s\n", file.c_str(), cells.size(), to_string(kind).c_str());
    return kOk;
  }
  auto experiment = load_experiment(path, settings);
  print_machine_notes(experiment);
  if (!is_model_here(experiment.model_name)) {
    check_tasks(experiment, paths);
    return validate_without_model(file, experiment.model_name, experiment, paths);
  }
  place_model(experiment);
  const auto grid =
      kind == RunKind::search ? search_grid(experiment, paths, experiment.search) : expand_grid(experiment, paths);
  if (!grid.left_out.empty() && experiment.has_check_settings) {  // it chooses its tasks by the model's context
    CheckModelArguments arguments;
    arguments.names = {experiment.model_name};
    arguments.config = file;
    arguments.settings = settings;
    const auto size = check_size(arguments);
    std::printf("%s is valid for `kvc check`: %zu cells, %ld samples\n", file.c_str(), size.n_cells, size.n_samples);
    return kOk;
  }
  KVC_CHECK(grid.left_out.empty(), grid.left_out.front());
  print_prompt_notes(experiment, grid, paths);
  int64_t n_samples = 0;
  for (const auto& cell : grid.cells) n_samples += cell.record.n_samples;
  std::printf("%s is valid: %zu cells, %ld samples\n", file.c_str(), grid.cells.size(), n_samples);
  return kOk;
}

// A bad file says so, and the others are checked all the same.
int validate_or_say(const std::string& file, const std::vector<std::string>& settings) {
  try {
    return validate(file, settings);
  } catch (const Error& e) {
    for (const auto& line : lines_of(e)) std::fprintf(stderr, "kvc: %s\n", line.c_str());
    return kUsage;
  }
}

constexpr int64_t kChecks = 7;

// One line of the doctor's report: runs the check, prints its finding or what it threw.
template <class Check>
bool report_check(const char* what, Progress& progress, int64_t& n_done, Check check) {
  progress.show({n_done++, kChecks, "checks", -1, std::nullopt, 0, what});
  bool is_well = true;
  std::string found;
  try {
    found = check();
  } catch (const std::exception& e) {
    found = one_line(said_by(e));
    is_well = false;
  }
  progress.make_room();
  std::printf("%-5s %-12s %s\n", is_well ? "ok" : "FAIL", what, found.c_str());
  return is_well;
}

int doctor(const std::string& model, const fs::path& folder) {
  const auto paths = find_paths();
  Progress progress;
  int64_t n_done = 0;
  const auto report = [&](const char* what, const auto& check) { return report_check(what, progress, n_done, check); };
  const auto made_with = provenance();
  bool well = report("machine", [&] {
    return concat(made_with["cpu"].get<std::string>(), ", ", made_with["n_cores"], " cores, ",
                  made_with["memory_bytes"].get<int64_t>() >> 30, " GiB, kernels for ",
                  made_with["cpu_capability"].get<std::string>());
  });
  well &= report("build", [&] { return made_with["build_id"].get<std::string>(); });
  well &= report("git", [&] { return made_with["git"].get<std::string>(); });
  well &= report("plugins", [&] {
    const auto files = find_plugins({paths.plugins});
    KVC_CHECK(!files.empty(), "none in '", paths.plugins.string(), "'");
    std::vector<std::string> names;
    for (const auto& said :
         in_child(names_of(files), [&](size_t i) { return json(PluginLibrary(files[i]).file().stem()); })) {
      names.push_back(said);
    }
    return join(names);
  });
  well &= report("model", [&] {
    const auto config = load_model_config(folder);
    const auto tokenizer = Tokenizer::load(folder);
    tokenizer.check_rows(config.vocab_size, folder.string());
    const std::string text = "Q: What is 1 + 1?\nA:";
    const auto ids = tokenizer.encode(text, true);
    KVC_CHECK(tokenizer.decode(ids, true) == text, "the tokenizer does not reproduce '", text, "'");
    const auto shape = config.shape();
    const auto windows = window_text(config, config.max_position_embeddings);
    return concat(model, ": ", shape.n_layers, " layers, ", shape.n_heads, " heads over ", shape.n_kv_heads,
                  " KV heads of ", shape.head_dim, ", context ", config.max_position_embeddings,
                  "; KV at 16 bits: ", 4 * shape.n_layers * shape.n_kv_heads * shape.head_dim, " bytes/token",
                  windows.empty() ? "" : "; ", windows);
  });
  well &= report("tasks", [&] {
    const auto tasks = take_inventory(find_tasks(paths.root / "tasks"), data_folder(""));
    KVC_CHECK(tasks.broken.empty(), tasks.broken.size(), " invalid task files, first: ", tasks.broken.front());
    return concat(tasks.tasks.size(), " in ", tasks.n_suites(), " suites, ", tasks.n_that_run(),
                  " have their data here; `kvc tasks` lists what the others need");
  });
  well &= report("results", [&] {
    const fs::path here = fs::current_path();
    KVC_CHECK(::access(here.c_str(), W_OK) == 0, "'", here.string(), "' is not writable");
    return concat("'", here.string(), "' is writable, ", fs::space(here).available >> 30, " GiB free");
  });
  return well ? kOk : kEnvironment;
}

void add_plan_options(Verb verb, PlanArguments& arguments) {
  verb.add_option("--compressor", arguments.compressors,
                  "memory plan: only this compressor instead of all plugins; may be repeated, with --options");
  verb.add_option("--options", arguments.options, "memory plan: a JSON object of options for each --compressor");
  verb.add_option("--plugin-path", arguments.plugin_path, "memory plan: folders to search for plugins first");
  verb.add_option("--weights", arguments.weights, "memory plan: fp32, 16bit or int8")
      .choices({"fp32", "16bit", "int8"})
      .show_default();
  verb.add_option("--reserve-gb", arguments.reserve_gb, "memory plan: GB reserved for workspace")
      .non_negative()
      .show_default();
  verb.add_option("--tokens", arguments.tokens, "memory plan: tokens per sequence of a batch")
      .positive()
      .show_default();
}

}  // namespace

void add_inspect_verbs(Verb program) {
  struct Arguments {
    std::string name, model_name = "models/demo";
    std::vector<std::string> files, settings, plugin_path;
    PlanArguments plan;
    bool engines = false;
  };
  auto arguments = std::make_shared<Arguments>();
  auto plugins = program.add_subcommand(
      "plugins", "Lists the compressors; with a name: options, source and deviations from its paper");
  plugins.add_option("name", arguments->name, "plugin name or .so file");
  plugins.add_option("--plugin-path", arguments->plugin_path, "folders to search first");
  plugins.add_flag(
      "--engines", arguments->engines,
      "list the cache options of inference engines and the compressors that represent them (kvc check --as)");
  plugins.on_call([arguments] {
    if (!arguments->engines) return list_plugins(arguments->name, arguments->plugin_path);
    std::fputs(write_shown(engine_table(find_paths().root), "markdown", false).c_str(), stdout);
    return static_cast<int>(kOk);
  });

  auto check = program.add_subcommand("validate", "Checks an experiment file without running it");
  check.add_option("file", arguments->files, "experiment files (YAML)").required();
  check.add_option("--set", arguments->settings, "path=value overrides the file");
  check.on_call([arguments] {
    int code = kOk;
    for (const auto& file : arguments->files) code = std::max(code, validate_or_say(file, arguments->settings));
    return code;
  });

  auto doctor_verb =
      program.add_subcommand("doctor", "Checks that this machine can run kvc: build, plugins, model, data");
  doctor_verb
      .add_option("--model", arguments->model_name,
                  "folder, .gguf file or name; a config.json, or a folder without weights, gives a memory plan: which "
                  "contexts and batches fit")
      .show_default();
  add_plan_options(doctor_verb, arguments->plan);
  doctor_verb.on_call([arguments] {
    const auto model = model_path(arguments->model_name);
    if (!is_only_planned(model)) {
      KVC_CHECK(arguments->plan.compressors.empty(), "--compressor: '", arguments->model_name,
                "' is a complete model; for a memory plan, name its config.json");
      return doctor(arguments->model_name, model);
    }
    print_plan(model, arguments->plan);
    return static_cast<int>(kOk);
  });
}

}  // namespace kvc
