#include <cstdio>

#include "cli/verbs.h"
#include "kvc/check.h"
#include "model_lookup/model_path.h"
#include "run/verify_run.h"

namespace kvc {
namespace {

struct VerifyArguments {
  std::string database, cell;
  VerifyOptions options;
};

// A revision of the Hub may have moved on since: its commit has not.
std::filesystem::path find_again(const std::string& model, const nlohmann::json& origin) {
  if (!origin.contains("commit")) return model_path(model);
  return model_path(origin.at("from").get<std::string>() + "@" + origin.at("commit").get<std::string>());
}

int verify(const VerifyArguments& arguments) {
  auto store = ResultStore::open_readonly(arguments.database);
  auto options = arguments.options;
  options.find_model = &find_again;
  const auto result = verify_run(store, arguments.cell, options, find_paths());
  std::string samples;
  for (const int64_t sample : result.samples) samples += concat(samples.empty() ? "" : ", ", sample);
  std::printf("cell %s: %s\nrecomputed samples: %s\n", result.cell_key.c_str(), result.what.c_str(), samples.c_str());
  for (const auto& note : result.notes) std::printf("note: %s\n", note.c_str());
  for (const auto& difference : result.differences) std::printf("differs: %s\n", difference.c_str());
  std::printf("%zu differences\n", result.differences.size());
  return result.differences.empty() ? kOk : kSuspect;
}

}  // namespace

void add_verify_run_verb(Verb program) {
  auto arguments = std::make_shared<VerifyArguments>();
  auto verb = program.add_subcommand("verify-run", "Recomputes random samples of a stored cell and compares them");
  verb.add_option("db,--db", arguments->database, "results database").required();
  verb.add_option("cell", arguments->cell, "the cell's key, or a unique prefix of it").required();
  verb.add_option("--samples", arguments->options.n_samples, "number of samples").positive().show_default();
  verb.add_option("--seed", arguments->options.seed, "seed of the random choice").non_negative().show_default();
  verb.add_option("--data-dir", arguments->options.data_dir, "data folder (default: KVC_DATA)");
  verb.add_option("--plugin-path", arguments->options.plugin_path, "folders to search for plugins first");
  verb.on_call([arguments] { return verify(*arguments); });
}

}  // namespace kvc
