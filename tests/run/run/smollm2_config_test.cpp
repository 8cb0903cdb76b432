// configs/smollm2.yaml without the model: its compressors on the shape, its tasks, and the command of the README.
#include <gtest/gtest.h>

#include <algorithm>

#include "experiment/bench_experiment.h"
#include "experiment/task_names.h"
#include "support/places.h"
#include "support/program.h"
#include "text/yaml_read.h"
#include "tokenizer/tokenizer.h"

namespace kvc::test {
namespace {

const auto kConfig = kCheckout / "configs" / "smollm2.yaml";

// The same compressors on one layer of the model's shape.
std::string as_bench() {
  const auto text = read_file(kConfig);
  return "name: s\nkind: bench\nbench:\n  layer: {n_heads: 9, n_kv_heads: 3, head_dim: 64}\n  prompt_tokens: 20\n"
         "  new_tokens: 8\n" +
         text.substr(text.find("\ncompressors:") + 1);
}

TEST(SmolLm2Config, EveryPluginOfThisRepositoryTakesTheModelsShape) {
  TempFolder folder;
  const auto file = folder.write("s.yaml", as_bench()).string();
  const auto planned = run_program(folder, {"run", file, "--dry-run"});
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  std::set<std::string> used, there;
  for (const auto& choice : load_bench(file, {}).compressors) used.insert(choice.plugin);
  for (const auto& entry : std::filesystem::directory_iterator(kCheckout / "plugins")) {
    if (entry.is_directory()) there.insert(entry.path().filename());
  }
  EXPECT_EQ(used, there);
  EXPECT_EQ(there.size(), 36u);
}

TEST(SmolLm2Config, NamesTasksThatThereAre) {
  auto map = load_yaml(kConfig).map();
  Paths paths;
  paths.root = kCheckout;
  std::vector<std::string> found;
  for (const auto& name : map.required("tasks").sequence()) {
    for (const auto& id : tasks_of(name.string(), paths)) found.push_back(id.name());
  }
  EXPECT_EQ(found, (std::vector<std::string>{"lambada/openai", "piqa/validation", "hellaswag/validation", "gsm8k/cot8",
                                             "passkey/to_8k", "needle/to_8k", "likelihood/kjv/4k",
                                             "likelihood/longbench/2k"}));
}

// `--set tasks=[lambada/openai]` is one argument whose value is a list.
TEST(SmolLm2Config, ASetOfTasksTakesTheirPlace) {
  const auto experiment = load_experiment(kConfig, {"tasks=[lambada/openai]", "limit=20"});
  EXPECT_EQ(experiment.tasks, std::vector<std::string>{"lambada/openai"});
  EXPECT_EQ(experiment.limit, 20);
  TempFolder folder;
  const auto run = run_program(
      folder, {"validate", kConfig.string(), "--set", "tasks=[lambada/opnai]", "--set", "model=models/demo"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("unknown task 'lambada/opnai' (did you mean 'lambada/openai'?)"), std::string::npos)
      << run.err;
}

}  // namespace
}  // namespace kvc::test
