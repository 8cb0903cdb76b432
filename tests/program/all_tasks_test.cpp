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

// One sample a task, here; configs/all_tasks.yaml says three.
TEST(AllTasks, EndInRowsOrAreNamedWithWhatTheyLack) {
  const char* data_dir = std::getenv("KVC_DATA");
  if (!data_dir) GTEST_SKIP() << "KVC_DATA is not set: the folder that holds the benchmarks";
  TempFolder folder;
  const auto file = (folder / "x.sqlite").string();
  const auto done = run_program(folder, {"run", "configs/all_tasks.yaml", "--limit", "1", "--db", file});
  auto db = Database::open(file, Database::Mode::kReadOnly, 1000);
  int64_t n_there = 0, n_lacking = 0;
  for (const auto& id : find_tasks(std::filesystem::path(KVC_SOURCE_DIR) / "tasks")) {
    // Of these `kvc check` asks those that a model's context holds, or the user does.
    if (id.name().starts_with("check/") || id.name().starts_with("pseudo_decode/")) continue;
    if (id.name().starts_with("bbh_chat/") && id.name() != "bbh_chat/chat0/boolean_expressions") continue;  // as bbh/
    const auto task = load_task(id);
    const bool is_short =
        id.name().ends_with("/2k") || id.name() == "long_decoding/route/8" || id.name() == "long_decoding/countdown/16";
    if (task.data.made && !is_short) continue;
    try {
      count_samples(task, data_dir);
      ++n_there;
    } catch (const Error& e) {
      ++n_lacking;
      EXPECT_NE(done.err.find("left out: " + id.name() + ": " + e.what()), std::string::npos) << id.name();
      continue;
    }
    auto select = db.prepare(
        "SELECT count(*) FROM sample JOIN cell ON cell.key = cell_key JOIN text ON sha256 = prompt_sha256"
        " WHERE task = ? AND status = 'ok' AND body <> '' AND n_prompt_tokens <= n_prompt_tokens_before"
        " AND n_prompt_tokens <= 2560 + 16"  // what is cut in the middle may be encoded to a few tokens more
        " AND EXISTS (SELECT 1 FROM score WHERE score.cell_key = cell.key AND score.sample = sample.sample)");
    select.bind(1, id.name());
    ASSERT_TRUE(select.step());
    EXPECT_EQ(select.integer(0), 2) << id.name();  // full and kivi
  }
  EXPECT_GE(n_there, 180);
  EXPECT_EQ(done.exit_code, n_lacking > 0 ? 4 : 0) << done.err.substr(done.err.size() - 500);
}

}  // namespace
}  // namespace kvc
