// A task of others' data through the whole way: $KVC_DATA is the data folder.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "store/result_store.h"
#include "support/program.h"

namespace kvc::test {
namespace {

TEST(RealInput, RowsHoldThePromptsOfThePublicScriptByteForByte) {
  const char* data = std::getenv("KVC_DATA");
  if (!data || !std::filesystem::exists(std::filesystem::path(data) / "gsm8k/test.jsonl")) {
    GTEST_SKIP() << "KVC_DATA names no folder with gsm8k/test.jsonl";
  }
  constexpr int kSamples = 4;
  TempFolder folder;
  const auto database = folder / "r.sqlite";
  const auto config = (std::filesystem::path(KVC_SOURCE_DIR) / "configs/gsm8k.yaml").string();
  const auto run = run_program(
      folder, {"run", config, "--limit", std::to_string(kSamples), "--db", database.string(), "--set", "workers=2"});
  ASSERT_EQ(run.exit_code, 0) << run.err;

  const auto exemplars = read_file(std::filesystem::path(data) / "gear_prompts/gsm8k_prompt_original.txt");
  std::istringstream questions(read_file(std::filesystem::path(data) / "gsm8k/test.jsonl"));
  auto store = ResultStore::open_readonly(database);
  EXPECT_EQ(store.database().integer("SELECT count(*) FROM sample WHERE status = 'ok'"), kSamples);
  std::string line;
  for (int i = 0; i < kSamples && std::getline(questions, line); ++i) {
    const auto question = nlohmann::json::parse(line)["question"].get<std::string>();
    const auto prompt = store.database().text(
        "SELECT body FROM sample JOIN text ON text.sha256 = prompt_sha256 WHERE sample = " + std::to_string(i));
    EXPECT_EQ(prompt, exemplars + "\nQuestion: " + question + "\n");
  }
}

}  // namespace
}  // namespace kvc::test
