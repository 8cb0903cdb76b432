#include <cstdio>

#include "cli/verbs.h"
#include "kvc/check.h"
#include "models/model_path.h"
#include "render/terminal.h"
#include "run/predict_bench.h"
#include "text/nearest.h"

namespace kvc {
namespace {

struct BenchArguments {
  std::string file, predict, format = "markdown", allow_plugins;
  std::vector<std::string> settings;
  bool wide = false;
};

// Caches live where CUDA's kernels can be counted, whatever device the file names.
int predict_file(const BenchArguments& arguments) {
  KVC_CHECK(!arguments.predict.empty(), "bench: --predict is missing: one of ", join(gpu_names()),
            "; `kvc run` measures times on this machine");
  const auto gpu = gpu_named(arguments.predict);
  const auto paths = find_paths();
  const auto file = below_root(paths, arguments.file);
  const auto kind = experiment_kind(file, arguments.settings);
  KVC_CHECK(kind == RunKind::bench, arguments.file, ": kind ", to_string(kind), ", expected bench");
  auto experiment = load_bench(file, arguments.settings);
  place_model(experiment);
  experiment.allow_plugins = arguments.allow_plugins;
  experiment.subject.device = "cuda-emulated";
  const bool by_kind = arguments.wide || arguments.format != "markdown";
  const auto table = predict_bench(experiment, expand_bench(experiment, paths), gpu, by_kind);
  std::fputs(write_shown(table, arguments.format, arguments.wide).c_str(), stdout);
  return kOk;
}

}  // namespace

void add_bench_verb(Verb program) {
  auto arguments = std::make_shared<BenchArguments>();
  auto verb = program.add_subcommand(
      "bench", "Estimates decode time on a GPU from a roofline model; nothing is run on it");
  verb.add_option("file", arguments->file, "experiment file (YAML) of kind bench").required();
  verb.add_option("--predict", arguments->predict,
                  concat("the GPU: ", join(gpu_names()), "; nothing is measured or stored"));
  verb.add_option("--set", arguments->settings, "path=value overrides the file, e.g. bench.prompt_tokens=[32768]");
  verb.add_option("--format", arguments->format,
                  "markdown, csv or json; csv, json and --wide include bytes by kind")
      .choices({"markdown", "csv", "json"})
      .show_default();
  add_allow_plugins(verb, arguments->allow_plugins);
  add_wide(verb, arguments->wide);
  verb.on_call([arguments] { return predict_file(*arguments); });
}

}  // namespace kvc
