#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>

#include "cli/verbs.h"
#include "experiment/experiment.h"
#include "experiment/grid.h"
#include "experiment/model_hashes.h"
#include "experiment/read_compressors.h"
#include "kvc/check.h"
#include "model_lookup/model_path.h"
#include "run/progress.h"
#include "text/files.h"
#include "text/text_file.h"
#include "text/yaml_read.h"
#include "worker/calibrate.h"
#include "worker/load_model.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct CalibrateArguments {
  std::string config, model_name, plugin, output, dtype = "fp32";
  std::vector<std::string> texts, plugin_path, settings;
  int64_t samples = 16, length = 0;
  bool fisher = false;
};

// One file to be written, and the method that it is for.
struct Target {
  fs::path file;
  std::string plugin, where;
  json options;  // those that a run must share
  std::unique_ptr<Compressor> compressor;
  const Calibrated* method = nullptr;
};

// The file that an entry names goes out of its options: it need not be there yet.
Target make_target(const CompressorChoice& choice, const fs::path& folder, const std::vector<fs::path>& plugins) {
  const PluginLibrary library(find_plugin(choice.plugin, plugins));
  Target target{{}, choice.plugin, choice.where, json::object(), nullptr, nullptr};
  auto options = choice.options;
  for (const auto& option : library.describe_options()) {
    if (option.type != "file" || !options.contains(option.name)) continue;
    const auto given = options.at(option.name).get<std::string>();
    const auto placed = library.with_files_from(folder, options).at(option.name).get<std::string>();
    if (placed != given || fs::path(given).is_absolute()) target.file = placed;  // and not one of the option's words
    options.erase(option.name);
  }
  json resolved;
  target.compressor = library.make(options, &resolved);
  target.method = dynamic_cast<const Calibrated*>(target.compressor.get());
  if (!target.method) return target;
  for (const auto& name : target.method->calibrated_options()) target.options[name] = resolved.at(name);
  return target;
}

// Puts the target beside the others, unless its file is among them; then both must want the same.
void add_target(Target target, std::vector<Target>& targets) {
  for (const auto& other : targets) {
    if (other.file != target.file) continue;
    KVC_CHECK(other.plugin == target.plugin && other.options == target.options, target.where, ": error: '",
              target.file.string(), "' would serve both ", target.plugin, " ", target.options.dump(), " and ",
              other.plugin, " ", other.options.dump(), "; expected one file for each");
    return;
  }
  targets.push_back(std::move(target));
}

// Of a composition, its parts.
void add_targets(const CompressorChoice& choice, const fs::path& folder, const std::vector<fs::path>& plugins,
                 std::vector<Target>& targets) {
  for (const auto& part : choice.parts) add_targets(part, folder, plugins, targets);
  if (!choice.parts.empty()) return;
  auto target = make_target(choice, folder, plugins);
  if (target.method && !target.file.empty()) add_target(std::move(target), targets);
}

std::vector<Target> targets_of(const Experiment& experiment, const std::string& config) {
  const auto plugins = plugin_folders(experiment.plugin_path, find_paths());
  std::vector<Target> targets;
  for (const auto& choice : experiment.compressors) add_targets(choice, experiment.folder, plugins, targets);
  KVC_CHECK(!targets.empty(), config, ": no compressor names a calibration file");
  return targets;
}

std::vector<Target> targets_of(const CalibrateArguments& arguments) {
  const auto plugins = plugin_folders(arguments.plugin_path, find_paths());
  std::vector<Target> targets;
  for (const auto& choice : read_compressor(parse_yaml("--plugin", arguments.plugin))) {
    KVC_CHECK(choice.parts.empty(), "--plugin: '", choice.plugin, "' is a composition, expected a plugin");
    auto target = make_target(choice, fs::current_path(), plugins);
    KVC_CHECK(target.method, "--plugin: '", choice.plugin, "' needs no calibration");
    target.file = fs::absolute(arguments.output);
    add_target(std::move(target), targets);
  }
  return targets;
}

// Counts tokens: a text's last piece may be shorter. What methods make of them in the end is not in it.
std::function<void(size_t)> piece_progress(const std::vector<std::vector<int64_t>>& pieces) {
  auto progress = std::make_shared<Progress>();
  auto state = std::make_shared<ProgressState>();
  state->unit = "tokens";
  for (const auto& piece : pieces) state->n_total += static_cast<int64_t>(piece.size());
  return [&pieces, progress, state](size_t piece) {
    state->n_done += static_cast<int64_t>(pieces[piece].size());
    const double so_far = progress->seconds_so_far();
    state->seconds_left = left_by_count(state->n_done, state->n_total, so_far);
    state->tokens_per_second = so_far > 0 ? static_cast<double>(state->n_done) / so_far : 0;
    state->doing = concat("piece ", piece + 1, " of ", pieces.size());
    piece + 1 < pieces.size() ? progress->show(*state) : progress->make_room();
  };
}

int calibrate_verb(const CalibrateArguments& arguments) {
  const bool by_config = !arguments.config.empty();
  KVC_CHECK(by_config == (arguments.model_name.empty() && arguments.plugin.empty() && arguments.output.empty()),
            "calibrate: expected an experiment file, or --model, --plugin and -o");
  KVC_CHECK(by_config || (!arguments.model_name.empty() && !arguments.plugin.empty() && !arguments.output.empty()),
            "calibrate: expected --model, --plugin and -o together");
  const auto paths = find_paths();
  Experiment experiment;
  if (by_config) experiment = load_experiment(experiment_file(paths, arguments.config), arguments.settings);
  const auto targets = by_config ? targets_of(experiment, arguments.config) : targets_of(arguments);
  CalibrationPlan plan{
      .texts = {}, .max_pieces = arguments.samples, .length = arguments.length, .gradients = arguments.fisher};
  Calibration calibration;
  for (const auto& file : arguments.texts) {
    plan.texts.push_back({file, read_text(file)});
    calibration.texts.push_back(sha256_hex(plan.texts.back().text));
  }
  const auto folder = model_path(by_config ? experiment.model_name : arguments.model_name);
  KVC_CHECK(is_model_path(folder), "model '", folder.string(), "': expected a folder or a .gguf file");
  calibration.model_identity = model_identity(hash_model(folder));
  const auto model = load_model(folder, arguments.dtype);
  const int64_t context = model.config().max_position_embeddings;
  if (plan.length == 0) plan.length = std::min<int64_t>(2048, context);
  const auto pieces = calibration_pieces(plan, Tokenizer::load(folder), context);
  std::vector<const Calibrated*> methods;
  for (const auto& target : targets) methods.push_back(target.method);
  auto learned = calibrate(model, pieces, methods, plan.gradients, piece_progress(pieces));
  calibration.n_pieces = static_cast<int64_t>(pieces.size());
  for (const auto& piece : pieces) calibration.n_tokens += static_cast<int64_t>(piece.size());
  calibration.has_gradients = plan.gradients;
  for (size_t i = 0; i < targets.size(); ++i) {
    calibration.plugin = targets[i].plugin, calibration.options = targets[i].options;
    calibration.tensors = std::move(learned[i]);
    write_calibration(targets[i].file, calibration);
    std::printf("%s: %s %s from %ld pieces, %ld tokens%s\n", targets[i].file.c_str(), targets[i].plugin.c_str(),
                targets[i].options.dump().c_str(), calibration.n_pieces, calibration.n_tokens,
                plan.gradients ? ", weighted by gradients" : "");
  }
  return kOk;
}

}  // namespace

void add_calibrate_verb(Verb program) {
  auto arguments = std::make_shared<CalibrateArguments>();
  auto& a = *arguments;
  auto verb =
      program.add_subcommand("calibrate", "Writes the calibration files that some compressors need, from sample texts");
  verb.add_option("config", a.config, "experiment file (YAML): every calibration file it names is written");
  verb.add_option("--model", a.model_name, "folder, .gguf file or name; instead of an experiment file");
  verb.add_option("--plugin", a.plugin, "the compressor, written as in an experiment: 'kvquant: {sparsity: 0.01}'");
  verb.add_option("-o,--output", a.output, "the file to write");
  verb.add_option("--texts", a.texts, "text files").required();
  verb.add_option("--samples", a.samples, "most pieces of text to use").positive().show_default();
  verb.add_option("--length", a.length, "tokens per piece (default: 2048, or the model's context)").positive();
  verb.add_flag("--fisher", a.fisher, "also compute gradients of the loss, as weights of the k-means (fp32, CPU)");
  verb.add_option("--dtype", a.dtype, "the model's compute type").choices({"fp32", "fp16", "bf16"}).show_default();
  verb.add_option("--set", a.settings, "path=value overrides the experiment file");
  verb.add_option("--plugin-path", a.plugin_path, "folders to search before the built-in plugins");
  verb.on_call([arguments] { return calibrate_verb(*arguments); });
}

}  // namespace kvc
