// Every task from its data to its score, on the embedded model.
#include <gtest/gtest.h>

#include <cstdlib>

#include "store/database.h"
#include "support/program.h"
#include "task/dataset.h"

namespace kvc {
namespace {

using test::run_program;
using test::TempFolder;

// One sample a task, here; configs/all_tasks.yaml says three. Prompts that may be cut are, to 256 tokens.
struct Half {
  const char *tasks, *tokens, *database;
};
const Half kHalves[] = {
    {"tasks=[gsm8k, bbh, bbh_chat/chat0/boolean_expressions, longbench, longbench_e, longbench_mini, lambada, "
     "hellaswag, "
     "piqa, mathqa, mmlu, math]",
     "max_prompt_tokens=256", "cut.sqlite"},
    {"tasks=[demo, aqua, icl, passkey, needle, likelihood/*/2k, ruler/*/2k, ruler_sentences/*/2k, "
     "long_decoding/route/8, "
     "long_decoding/countdown/16]",
     "max_prompt_tokens=2560", "whole.sqlite"}};

// Samples of the task that were asked, answered and scored.
int64_t n_rows(Database& db, const std::string& task) {
  auto select = db.prepare(
      "SELECT count(*) FROM sample JOIN cell ON cell.key = cell_key JOIN text ON sha256 = prompt_sha256"
      " WHERE task = ? AND status = 'ok' AND body <> '' AND n_prompt_tokens <= n_prompt_tokens_before"
      " AND n_prompt_tokens <= 2560 + 16"  // what is cut in the middle may be encoded to a few tokens more
      " AND EXISTS (SELECT 1 FROM score WHERE score.cell_key = cell.key AND score.sample = sample.sample)");
  select.bind(1, task);
  return select.step() ? select.integer(0) : 0;
}

TEST(AllTasks, EndInRowsOrAreNamedWithWhatTheyLack) {
  const char* data_dir = std::getenv("KVC_DATA");
  if (!data_dir) GTEST_SKIP() << "KVC_DATA is not set: the folder that holds the benchmarks";
  TempFolder folder;
  std::string said;
  std::vector<Database> databases;
  bool is_whole = true;
  for (const auto& [tasks, tokens, database] : kHalves) {
    const auto done = run_program(folder, {"run", "configs/all_tasks.yaml", "--limit", "1", "--db",
                                           (folder / database).string(), "--set", tasks, tokens});
    EXPECT_TRUE(done.exit_code == 0 || done.exit_code == 4) << done.err;
    is_whole = is_whole && done.exit_code == 0;
    said += done.err;
    databases.push_back(Database::open(folder / database, Database::Mode::kReadOnly, 1000));
  }
  int64_t n_there = 0, n_lacking = 0;
  for (const auto& id : find_tasks(std::filesystem::path(KVC_SOURCE_DIR) / "tasks")) {
    // Of these `kvc check` asks those that a model's context holds, or the user does.
    if (id.name().starts_with("check/") || id.name().starts_with("pseudo_decode/")) continue;
    if (id.name().starts_with("bbh_chat/") && id.name() != "bbh_chat/chat0/boolean_expressions") continue;  // as bbh/
    if (id.name().starts_with("likelihood/") && !id.name().ends_with("/2k")) continue;  // longer windows of the same
    const auto task = load_task(id);
    const bool is_short =
        id.name().ends_with("/2k") || id.name() == "long_decoding/route/8" || id.name() == "long_decoding/countdown/16";
    if (task.data.made && !is_short) continue;
    try {
      count_samples(task, data_dir);
      ++n_there;
    } catch (const Error& e) {
      ++n_lacking;
      EXPECT_NE(said.find("left out: " + id.name() + ": " + e.what()), std::string::npos) << id.name();
      continue;
    }
    int64_t n = 0;
    for (auto& db : databases) n += n_rows(db, id.name());
    EXPECT_EQ(n, 2) << id.name();  // full and kivi
  }
  EXPECT_GE(n_there, 180);
  EXPECT_EQ(is_whole, n_lacking == 0) << said.substr(said.size() - 500);
}

}  // namespace
}  // namespace kvc
