// Tasks by name, pattern, file and list.
#include "experiment/task_names.h"

#include <gtest/gtest.h>

#include "experiment/experiment.h"
#include "support/message_of.h"
#include "support/temp_folder.h"

namespace kvc::test {
namespace {

std::vector<std::string> names_of(const std::string& name) {
  Paths paths;
  paths.root = KVC_SOURCE_DIR;
  std::vector<std::string> names;
  for (const auto& id : tasks_of(name, paths)) names.push_back(id.name());
  return names;
}

TEST(TaskNames, AListBesideItsExperimentIsASuite) {
  const TempFolder folder;
  const auto list =
      folder.write("lists/mine.txt", "# a suite of mine\n\ndemo/swaps  # the short one\npasskey/to_8?\r\n");
  EXPECT_EQ(names_of(list.string()), (std::vector<std::string>{"demo/swaps", "passkey/to_8k"}));
  const auto file = folder.write("lists/x.yaml", "model: m\ntasks: [mine.txt, demo/truth]\ncompressors: [full]\n");
  EXPECT_EQ(load_experiment(file, {}).tasks, (std::vector<std::string>{list.string(), "demo/truth"}));
}

TEST(TaskNames, ABadLineOfAListIsNamed) {
  const TempFolder folder;
  const auto said = [&](const std::string& text) {
    const auto list = folder.write("l.txt", text);
    return folder.relative(message_of([&] { names_of(list.string()); }));
  };
  EXPECT_EQ(said("demo/swaps\ndemo/thruth\n").substr(0, 46), "l.txt:2: error: unknown task 'demo/thruth' (di");
  EXPECT_EQ(said("demo/swaps demo/truth\n"),
            "l.txt:1: error: 'demo/truth' after 'demo/swaps', expected one task per line");
  EXPECT_EQ(said("other.txt\n"), "l.txt:1: error: 'other.txt' is a list of tasks, expected tasks");
  EXPECT_EQ(said("# nothing\n"), "l.txt: no task, expected one per line");
}

}  // namespace
}  // namespace kvc::test
