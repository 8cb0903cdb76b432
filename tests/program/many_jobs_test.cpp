// Jobs that end without a worker, thousands in a row, under a small stack: prompts that are refused, samples of a
// compressor that crashes or never comes back, samples that another run is at.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "program/stored.h"
#include "store/run_store.h"

namespace kvc::test {
namespace {

constexpr int kSamples = 3000;
// Of 1 MB; a job that was passed over took 1.3 KB of it.
const std::vector<std::string> kSmallStack = {"/bin/sh", "-c", "ulimit -s 1024 && exec \"$@\"", "sh"};

// A task of kSamples questions, each `question` and its number, refused beyond max_tokens.
std::string many_questions(const TempFolder& folder, const std::string& question, int max_tokens) {
  std::string lines;
  for (int i = 0; i < kSamples; ++i) {
    lines += "{\"question\": \"" + question + std::to_string(i) + "\", \"answer\": \"7\"}\n";
  }
  folder.write("data/q.jsonl", lines);
  std::string cases;
  for (const auto* text : {"7", " 7", "7 ", "\n7", "7\n", "\t7"}) {
    cases += "  - {extractor: first, text: " + nlohmann::json(text).dump() +
             ", gold: \"7\", answer: \"7\", correct: true}\n";
  }
  return folder
      .write(
          "many.yaml",
          "version: 1\nsummary: many questions\ndata: {file: data/q.jsonl, root: task}\nfields: {question: "
          "question}\ngold: {from: answer}\nprompt: {template: \"Q: {question}\\nA:\", truncate: refuse, max_tokens: " +
              std::to_string(max_tokens) +
              "}\nmax_new_tokens: 4\nstop: [\"\\n\"]\nextractors:\n  - {name: first, steps: [strip], compare: "
              "exact}\nmetric: accuracy\nextract_cases:\n" +
              cases)
      .string();
}

std::string experiment(const TempFolder& folder, const std::string& task, const std::string& compressor,
                       const std::string& more = "") {
  return folder
      .write("x.yaml", "name: many\nmodel: models/demo\ntasks: [" + task +
                           "]\nsizes: []\nplugin_path: [" KVC_BINARY_DIR "/tests/plugins]\ncompressors: [" +
                           compressor + "]\n" + more)
      .string();
}

int64_t n_failed(const TempFolder& folder, const std::string& error) {
  auto store = ResultStore::open_readonly(folder / "r.sqlite");
  return store.database().integer("SELECT count(*) FROM sample WHERE status = 'failed' AND error LIKE '%" + error +
                                  "%'");
}

TEST(ManyJobs, ThatAreRefusedEndInAFailureEach) {
  TempFolder folder;
  const auto task = many_questions(folder, "what is 7? what is 7? ", 2);
  const auto file = experiment(folder, task, "full");
  for (int i = 0; i < 2; ++i) {  // the same command tries them again
    const auto run = Program(folder, {"run", file, "--db", (folder / "r.sqlite").string()}, "", kSmallStack).wait();
    EXPECT_EQ(run.signal, 0);
    EXPECT_EQ(run.exit_code, 4) << run.err.substr(0, 2000);
    EXPECT_EQ(n_failed(folder, "the task does not let it be cut"), kSamples);
  }
}

TEST(ManyJobs, OfACompressorThatNeverComesBackAreNotTriedOneByOne) {
  TempFolder folder;
  const auto task = many_questions(folder, "what is ", 100);
  const auto file = experiment(folder, task, "misbehaves: {how: hangs}", "patience: 0.3\n");
  const auto run = Program(folder, {"run", file, "--db", (folder / "r.sqlite").string()}, "", kSmallStack).wait();
  EXPECT_EQ(run.signal, 0);
  EXPECT_EQ(run.exit_code, 4) << run.err.substr(0, 2000);
  EXPECT_GE(n_failed(folder, "has already stopped"), kSamples - 10);
}

TEST(ManyJobs, OfACompressorThatCrashedAreSetApartAndStopAtCtrlC) {
  TempFolder folder;
  const auto task = many_questions(folder, "what is ", 100);
  const auto file = experiment(folder, task, "crashes");
  Program program(folder, {"run", file, "--db", (folder / "r.sqlite").string()}, "", kSmallStack);
  const auto has_crashed_often = [&] {
    try {
      return n_failed(folder, "killed by signal 6") >= 3;
    } catch (const Error&) {
      return false;  // there is no database yet
    }
  };
  for (int i = 0; i < 600 && !has_crashed_often(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  program.signal_group(SIGINT);
  const auto run = program.wait();
  EXPECT_EQ(run.signal, 0) << run.err.substr(0, 2000);
  EXPECT_EQ(run.exit_code, 130) << run.err.substr(0, 2000);
  EXPECT_GE(n_failed(folder, "killed by signal 6"), 3);
}

TEST(ManyJobs, ThatAnotherRunIsAtAreWaitedFor) {
  TempFolder folder;
  const auto task = many_questions(folder, "what is ", 100);
  const auto file = experiment(folder, task, "full");
  const std::vector<std::string> first = {"run", file, "--db", (folder / "r.sqlite").string(), "--set", "limit=1"};
  EXPECT_EQ(run_program(folder, first).exit_code, 0);
  {  // This process, which lives, is a run that is at all of them.
    auto store = ResultStore::open(folder / "r.sqlite");
    RunStore other(store.database(), "other", "cpu");
    auto select = store.database().prepare("SELECT key FROM cell");
    ASSERT_TRUE(select.step());
    const auto key = select.text(0);
    select.reset();
    for (int i = 0; i < kSamples; ++i) other.claim({key}, i, false);
    Program program(folder, {"run", file, "--db", (folder / "r.sqlite").string()}, "", kSmallStack);
    std::this_thread::sleep_for(std::chrono::seconds(15));
    program.signal_group(SIGINT);
    const auto run = program.wait();
    EXPECT_EQ(run.signal, 0) << run.err.substr(0, 2000);
    EXPECT_EQ(run.exit_code, 130) << run.err.substr(0, 2000);
  }
}

}  // namespace
}  // namespace kvc::test
