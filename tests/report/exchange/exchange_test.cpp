// Files for and from other programs.
#include <fstream>
#include <nlohmann/json.hpp>

#include "../../store/store/store_fixture.h"
#include "exchange/export.h"
#include "exchange/import.h"
#include "text/files.h"
#include "text/jsonl.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

class Exchange : public StoreTest {
 protected:
  void fill() {
    auto store = ResultStore::open(path_);
    auto cell = make_cell("cell-1", "lossy", "demo/lookup");
    cell.task_json = R"({"metric":"accuracy"})";
    cell.options_json = R"({"bits":2})";
    cell.n_samples = 4;
    store.put_cell(cell);
    for (int64_t i = 0; i < 3; ++i) store.put_sample(make_sample(cell.key, i, i == 0 ? 0 : 1));
    store.put_sample(failed_sample(cell.key, 3));
  }

  fs::path write(const std::string& name, const std::string& text) {
    const auto path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path;
  }

  Imported lm_eval(const fs::path& path) {
    auto store = ResultStore::open(path_);
    return import_lm_eval(store.database(), path);
  }

  Imported kvpress(const fs::path& path) {
    auto store = ResultStore::open(path_);
    return import_kvpress(store.database(), path);
  }

  // What an import tells the user, with paths from the test's folder.
  std::string told(const std::function<void()>& import) {
    testing::internal::CaptureStderr();
    import();
    auto text = testing::internal::GetCapturedStderr();
    for (size_t at; (at = text.find(folder_.string() + "/")) != text.npos;) text.erase(at, folder_.string().size() + 1);
    return text;
  }

  std::string rows() {
    auto store = ResultStore::open_readonly(path_);
    std::string text;
    auto select = store.database().prepare("SELECT * FROM external_result ORDER BY 1, 2, 3, 4, 5, 6");
    while (select.step()) {
      for (int i = 0; i < select.n_columns(); ++i) text += (i ? "|" : "") + select.text(i);
      text += "\n";
    }
    return text;
  }
};

// 0, 1, 1: mean 2/3, standard deviation sqrt(1/3), over sqrt(3).
TEST_F(Exchange, LmEvalGetsMeanAndStandardErrorOfTheOkSamples) {
  fill();
  auto store = ResultStore::open_readonly(path_);
  const auto made = export_lm_eval(store.database(), "all", folder_ / "out", 1795263991.25);
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(made[0].n_samples, 3);
  EXPECT_EQ(made[0].n_left_out, 1);
  EXPECT_EQ(made[0].folder.filename(), "tiny__lossy_bits=2");
  const auto json = nlohmann::json::parse(read_file(made[0].folder / "results_2026-11-21T12-26-31.250000.json"));
  const auto& task = json.at("results").at("demo__lookup");
  EXPECT_EQ(task.at("alias"), "demo/lookup");
  EXPECT_NEAR(task.at("accuracy,first").get<double>(), 2.0 / 3, 1e-15);
  EXPECT_NEAR(task.at("accuracy_stderr,first").get<double>(), 1.0 / 3, 1e-15);
  EXPECT_EQ(json.at("n-samples").at("demo__lookup"), nlohmann::json::parse(R"({"original":4,"effective":3})"));
  EXPECT_EQ(json.at("kv_compression").at("tasks").at("demo__lookup").at("kv_bytes"), 750);
  EXPECT_EQ(json.at("kv_compression").at("tasks").at("demo__lookup").at("bytes_by_component").at("k/codes"), 300);
}

TEST_F(Exchange, ANumberTooLargeIsRefusedInALine) {
  const auto path = write("results_1.json", R"({"results": {"t": {"acc,none": 1e400}}})");
  EXPECT_EQ(lm_eval(path).skipped,
            std::vector<std::string>{path.string() + ":1:1: error: JSON: number overflow parsing '1e400'"});
}

TEST_F(Exchange, LmEvalGetsOneLineASampleAndFilter) {
  fill();
  auto store = ResultStore::open_readonly(path_);
  const auto made = export_lm_eval(store.database(), "all", folder_ / "out", 1795263991.25);
  std::vector<nlohmann::json> lines;
  read_jsonl(made[0].folder / "samples_demo__lookup_2026-11-21T12-26-31.250000.jsonl",
             [&](int64_t, const nlohmann::json& line) { lines.push_back(line); });
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[3].at("doc_id"), 1);
  EXPECT_EQ(lines[3].at("filter"), "second");
  EXPECT_EQ(lines[3].at("filtered_resps"), nlohmann::json({"[invalid]"}));
  EXPECT_EQ(lines[2].at("filtered_resps"), nlohmann::json({"4"}));
  EXPECT_EQ(lines[2].at("resps"), nlohmann::json::parse(R"([[" 4"]])"));
  EXPECT_EQ(lines[2].at("arguments").at("gen_args_0").at("arg_0"), "Q: 1\nA:");
  EXPECT_EQ(lines[2].at("prompt_hash"), sha256_hex("Q: 1\nA:"));
}

// Each sample differs, so that a sum, a maximum and another column all show.
TEST_F(Exchange, LmEvalGetsWhatEachSampleHeldAndWhatOkOnesDidTogether) {
  fill();
  {
    auto store = ResultStore::open(path_);
    store.database().execute(
        "UPDATE sample SET peak_workspace_bytes = 100 + sample, peak_kv_bytes = 10 + sample, kv_bytes = kv_bytes + "
        "sample,"
        " n_prompt_tokens_before = n_prompt_tokens + (sample = 2), prefill_seconds = 1;"
        "UPDATE sample SET kv_bytes_fp16 = 5000 WHERE sample = 3");  // the failed one
  }
  auto store = ResultStore::open_readonly(path_);
  const auto made = export_lm_eval(store.database(), "all", folder_ / "out", 1795263991.25);
  const auto json = nlohmann::json::parse(read_file(made[0].folder / "results_2026-11-21T12-26-31.250000.json"));
  const auto& whole = json.at("kv_compression").at("tasks").at("demo__lookup");
  EXPECT_EQ(whole.at("kv_bytes"), 250 + 251 + 252);
  EXPECT_EQ(whole.at("kv_bytes_fp16"), 3000);
  EXPECT_EQ(whole.at("paper_bytes"), 600.0);
  EXPECT_EQ(whole.at("peak_workspace_bytes"), 102);
  EXPECT_EQ(whole.at("peak_kv_bytes"), 12);
  EXPECT_EQ(whole.at("prefill_seconds"), 3.0);
  EXPECT_EQ(whole.at("encode_seconds"), 1.5);
  EXPECT_EQ(whole.at("attend_seconds"), 3.0);
  std::vector<nlohmann::json> lines;
  read_jsonl(made[0].folder / "samples_demo__lookup_2026-11-21T12-26-31.250000.jsonl",
             [&](int64_t, const nlohmann::json& line) { lines.push_back(line); });
  EXPECT_EQ(lines[2].at("kv_bytes"), 251);
  EXPECT_EQ(lines[2].at("kv_bytes_fp16"), 1000);
  EXPECT_EQ(lines[2].at("n_prompt_tokens"), 10);
  EXPECT_EQ(lines[2].at("n_gen_tokens"), 20);
  EXPECT_EQ(lines[2].at("truncated"), false);
  EXPECT_EQ(lines[4].at("truncated"), true);
  EXPECT_EQ(lines[0].at("accuracy"), 0.0);
  EXPECT_EQ(lines[2].at("accuracy"), 1.0);
}

TEST_F(Exchange, TwoBinariesOfOneLabelGetAFolderEach) {
  fill();
  {
    auto store = ResultStore::open(path_);
    auto cell = make_cell("cell-2", "lossy", "demo/lookup");
    cell.options_json = R"({"bits":2})";
    cell.plugin_sha256 = "zz another binary";
    store.put_cell(cell);
    store.put_sample(make_sample(cell.key, 0));
  }
  auto store = ResultStore::open_readonly(path_);
  const auto made = export_lm_eval(store.database(), "all", folder_ / "out", 1);
  ASSERT_EQ(made.size(), 2u);
  EXPECT_EQ(made[0].folder.filename(), "tiny__lossy_bits=2");
  EXPECT_EQ(made[1].folder.filename(), "tiny__lossy_bits=2__cell-2");
  EXPECT_EQ(made[1].n_samples, 1);
}

TEST_F(Exchange, AnExportOverwritesNothing) {
  fill();
  auto store = ResultStore::open_readonly(path_);
  export_lm_eval(store.database(), "all", folder_ / "out", 1);
  EXPECT_NE(message_of([&] { export_lm_eval(store.database(), "all", folder_ / "out", 1); }).find("it exists"),
            std::string::npos);
}

TEST_F(Exchange, CsvHasALineASampleAndQuotesWhatMustBe) {
  fill();
  auto store = ResultStore::open_readonly(path_);
  EXPECT_EQ(export_csv(store.database(), "all", folder_ / "s.csv"), 4);
  const auto text = read_file(folder_ / "s.csv");
  EXPECT_TRUE(text.starts_with("model,task,plugin,options,bits,cell_key,sample,status,error,"));
  EXPECT_NE(text.find("tiny,demo/lookup,lossy,,16,cell-1,1,ok,,"), std::string::npos);
  EXPECT_NE(text.find("\"[7,8]\""), std::string::npos);
}

TEST_F(Exchange, JsonlHasPromptAndEveryScore) {
  fill();
  auto store = ResultStore::open_readonly(path_);
  EXPECT_EQ(export_jsonl(store.database(), "trial", folder_ / "s.jsonl"), 4);
  std::vector<nlohmann::json> lines;
  read_jsonl(folder_ / "s.jsonl", [&](int64_t, const nlohmann::json& line) { lines.push_back(line); });
  EXPECT_EQ(lines[1].at("prompt"), "Q: 1\nA:");
  EXPECT_EQ(lines[1].at("scores"),
            nlohmann::json::parse(R"({"first":{"answer":"4","value":1.0},"second":{"answer":null,"value":0.0}})"));
  EXPECT_EQ(lines[3].at("status"), "failed");
  for (const char* name : {"model", "options", "kv_bytes", "peak_bytes", "peak_other_bytes"}) {
    EXPECT_TRUE(lines[1].contains(name)) << name;
  }
  EXPECT_FALSE(lines[1].contains("extractor"));  // of one score: `scores` has them all
  EXPECT_NE(
      message_of([&] { export_jsonl(store.database(), "trail", folder_ / "s.jsonl"); }).find("no experiment 'trail'"),
      std::string::npos);
}

TEST_F(Exchange, LmEvalsNumbersBecomeExternal) {
  const auto file = write("in/results_2026.json", R"({"model_name": "org/m", "config": {"model": "hf", "model_args":
    {"pretrained": "org/m", "dtype": "float16"}}, "results": {"gsm8k": {"alias": "gsm8k", "sample_len": 9,
    "exact_match,strict-match": 0.5, "exact_match_stderr,strict-match": 0.125, "exact_match,flexible-extract": 1,
    "exact_match_stderr,flexible-extract": "N/A"}}})");
  EXPECT_EQ(lm_eval(folder_ / "in").n_new, 2);
  EXPECT_EQ(
      rows(),
      "lm-eval|results_2026.json|org/m|hf|dtype=float16,pretrained=org/m|gsm8k exact_match,flexible-extract|1.0||\n"
      "lm-eval|results_2026.json|org/m|hf|dtype=float16,pretrained=org/m|gsm8k exact_match,strict-match|0.5||stderr "
      "0.125\n");
  const auto again = lm_eval(file);
  EXPECT_EQ(again.n_equal, 2);
  EXPECT_EQ(again.n_new + again.n_changed, 0);
  write("in/results_2026.json", R"({"model_name": "org/m", "config": {"model": "hf", "model_args":
    {"pretrained": "org/m", "dtype": "float16"}}, "results": {"gsm8k": {"exact_match,strict-match": 0.5,
    "exact_match_stderr,strict-match": 0.25, "exact_match,flexible-extract": 0.75}}})");
  const auto changed = lm_eval(file);
  EXPECT_EQ(changed.n_changed, 2);  // a standard error, and a value
  EXPECT_EQ(changed.n_new + changed.n_equal, 0);
  EXPECT_NE(rows().find("flexible-extract|0.75||"), std::string::npos) << rows();
}

TEST_F(Exchange, OurOwnExportIsReadBackWithItsMethod) {
  fill();
  auto store = ResultStore::open_readonly(path_);
  export_lm_eval(store.database(), "all", folder_ / "out", 1);
  const auto imported = lm_eval(folder_ / "out");
  EXPECT_EQ(imported.n_new, 2);  // of the samples
  EXPECT_EQ(imported.n_left_out, 2);
  EXPECT_NE(rows().find("|tiny lossy bits=2|lossy|"), std::string::npos);
  EXPECT_NE(rows().find("|demo__lookup accuracy,first|0.666666666666667|"), std::string::npos);
}

TEST_F(Exchange, KvpressNumbersBecomeExternal) {
  write("in/run/config.yaml",
        "dataset: ruler\ndata_dir: '4096'\nmodel: org/m\npress_name: snapkv\ncompression_ratio: 0.5\n"
        "device: cuda:0\nmax_context_length: null\n");
  write("in/run/metrics.json", R"({"niah_1": {"string_match": 97.5}, "vt": {"string_match": null}})");
  EXPECT_EQ(kvpress(folder_ / "in").n_new, 2);
  EXPECT_EQ(rows(),
            "kvpress|ruler/4096|org/m|snapkv|compression_ratio 0.5|niah_1.string_match|97.5||\n"
            "kvpress|ruler/4096|org/m|snapkv|compression_ratio 0.5|vt.string_match|||\n");
}

TEST_F(Exchange, BadFilesAreNamedAndTheOthersAreIn) {
  EXPECT_NE(message_of([&] { lm_eval(folder_ / "none.json"); }).find("there is no such file"), std::string::npos);
  write("bad/results_1.json", R"({"results": {"a": {"acc,none": 1}}})");
  write("bad/results_2.json", "{\"results\": {,}}");
  const auto skipped = [&] {
    const auto imported = lm_eval(folder_ / "bad");
    return imported.skipped.size() == 1 ? imported.skipped.front() : concat(imported.skipped.size(), " skipped");
  };
  EXPECT_NE(skipped().find("results_2.json:1:14: error: not JSON"), std::string::npos) << skipped();
  EXPECT_EQ(rows(), "lm-eval|results_1.json||||a acc,none|1.0||\n");
  write("bad/results_2.json", R"({"results": {"a": {"acc,none": 1e999}}})");
  EXPECT_NE(skipped().find("results_2.json:1:1: error: JSON: number overflow"), std::string::npos) << skipped();
  write("bad/results_2.json", R"({"results": {"a\nb": 1}})");
  EXPECT_NE(skipped().find("results.a b is no object"), std::string::npos);
  write("bad/results_2.json", "[]");
  EXPECT_NE(skipped().find("no object 'results'"), std::string::npos);
  fs::create_directories(folder_ / "empty");
  EXPECT_NE(message_of([&] { lm_eval(folder_ / "empty"); }).find("has no results_*.json"), std::string::npos);
  EXPECT_NE(message_of([&] { kvpress(folder_ / "empty"); }).find("has no results of kvpress"), std::string::npos);
  write("press/config.yaml", "dataset: d\nmodel: m\n");
  write("press/metrics.json", "{}");
  const auto press = kvpress(folder_ / "press").skipped;
  ASSERT_EQ(press.size(), 1u);
  EXPECT_NE(press[0].find("no key 'press_name'"), std::string::npos);
}

TEST_F(Exchange, NaNAndInfinityAreNullInEveryFormatAndNeverZero) {
  const auto file = write("n/results_2026.json", R"({"results": {"w": {"ppl,none": Infinity, "byte,none": NaN,
    "bits,none": "N/A", "acc,none": 0.5, "acc_stderr,none": NaN}}, "model_name": "m"})");
  EXPECT_EQ(told([&] { EXPECT_EQ(lm_eval(file).n_new, 4); }),
            "kvc: note: n/results_2026.json: 3 values are NaN or Infinity, read as NULL; first: results.w.ppl,none\n");
  EXPECT_EQ(rows(),
            "lm-eval|results_2026.json|m|||w acc,none|0.5||\n"
            "lm-eval|results_2026.json|m|||w bits,none|||no number\n"
            "lm-eval|results_2026.json|m|||w byte,none|||no number\n"
            "lm-eval|results_2026.json|m|||w ppl,none|||no number\n");
  EXPECT_EQ(lm_eval(file).n_equal, 4);
}

TEST_F(Exchange, NaNInSamplesAndInKvpressIsNull) {
  write("s/samples_t_2024-05-01T10-00-00.jsonl",
        "{\"doc_id\": 0, \"metrics\": [\"acc\", \"ppl\"], \"acc\": 1, \"ppl\": NaN}\n"
        "{\"doc_id\": 1, \"metrics\": [\"acc\", \"ppl\"], \"acc\": NaN, \"ppl\": -Infinity}\n");
  EXPECT_EQ(lm_eval(folder_ / "s").n_new, 2);
  EXPECT_EQ(rows(),
            "lm-eval|samples_t_2024-05-01T10-00-00.jsonl|s|||t acc,none|1.0||mean of 1 samples, stderr 0, 1 samples "
            "without a value\n"
            "lm-eval|samples_t_2024-05-01T10-00-00.jsonl|s|||t ppl,none|||2 samples without a value\n");
  write("p/config.yaml", "dataset: d\nmodel: m\npress_name: knorm\n");
  write("p/metrics.json", R"({"t": {"string_match": NaN}})");
  EXPECT_EQ(kvpress(folder_ / "p").n_new, 1);
  EXPECT_NE(rows().find("kvpress|d|m|knorm||t.string_match|||\n"), std::string::npos) << rows();
}

// The layout of lm-eval 0.3, as bloom-560m's file in its repository has it.
TEST_F(Exchange, ResultsBeforeLmEval04AreRead) {
  const auto file = write("bloom_0-shot.json", R"({"results": {"lambada": {"ppl": 28.5, "ppl_stderr": 1.25, "acc": 0.5,
    "acc_stderr": 0.25}, "drop": {"em": 0, "f1": 0.25, "f1_stderr": 0.0}}, "versions": {"lambada": 0, "drop": 1},
    "config": {"model": "hf-causal", "model_args": "use_accelerate=True,pretrained=org/bloom", "limit": null}})");
  EXPECT_EQ(lm_eval(file).skipped, std::vector<std::string>());
  const std::string keys = "lm-eval|bloom_0-shot.json|org/bloom|hf-causal|use_accelerate=True,pretrained=org/bloom|";
  EXPECT_EQ(rows(), keys + "drop em,none|0.0||\n" + keys + "drop f1,none|0.25||stderr 0\n" + keys +
                        "lambada acc,none|0.5||stderr 0.25\n" + keys + "lambada ppl,none|28.5||stderr 1.25\n");
}

// --output_path run1.json of lm-eval 0.4.3 and later.
TEST_F(Exchange, ResultsOfAnyNameBelongToTheSamplesOfTheirTime) {
  write("o/run1_2026-01-02T03-04-05.5.json",
        R"({"model_name": "org/m", "config": {"model": "vllm"}, "results": {"a": {"acc,none": 0.5},
    "b": {"acc,none": 1}}})");
  write("o/samples_a_2026-01-02T03-04-05.5.jsonl", "{\"doc_id\": 0, \"acc\": 1}\n{\"doc_id\": 1, \"acc\": 0}\n");
  const auto imported = lm_eval(folder_ / "o");
  EXPECT_EQ(imported.skipped, std::vector<std::string>());
  EXPECT_EQ(imported.n_left_out, 1);
  EXPECT_EQ(
      rows(),
      "lm-eval|run1_2026-01-02T03-04-05.5.json|org/m|vllm||b acc,none|1.0||\n"
      "lm-eval|samples_a_2026-01-02T03-04-05.5.jsonl|org/m|vllm||a acc,none|0.5||mean of 2 samples, stderr 0.5\n");
}

// lm-eval 0.4.0 to 0.4.2: results.json, and a JSON array of each task's samples under the model's arguments.
TEST_F(Exchange, TheFilesOfLmEval040AreRead) {
  const std::string results = R"({"results": {"a_b": {"acc,none": 0.5, "alias": "a_b"}},
    "config": {"model": "hf", "model_args": "pretrained=org/m,dtype=float"}})";
  write("one/results.json", results);
  write("one/pretrained__org__m,dtype__float_a_b.jsonl",
        "[\n  {\n    \"doc_id\": 0,\n    \"acc\": 1.0\n  },\n  {\n    \"doc_id\": 1,\n    \"acc\": 0.0\n  }\n]");
  write("two/results.json", R"({"results": {"a_b": {"acc,none": 0.75}}, "config": {"model": "hf", "model_args":
    "pretrained=org/m,dtype=float"}})");
  const auto imported = lm_eval(folder_);
  EXPECT_EQ(imported.skipped, std::vector<std::string>());
  EXPECT_EQ(imported.n_left_out, 1);
  EXPECT_EQ(rows(),
            "lm-eval|pretrained__org__m,dtype__float_a_b.jsonl|org/m|hf|pretrained=org/m,dtype=float|a_b acc,none|0.5||"
            "mean of 2 samples, stderr 0.5\n"
            "lm-eval|two/results.json|org/m|hf|pretrained=org/m,dtype=float|a_b acc,none|0.75||\n");
}

TEST_F(Exchange, WhatIsNotKnownIsNamed) {
  const auto one = [&](const fs::path& path) {
    const auto skipped = lm_eval(path).skipped;
    return skipped.size() == 1 ? skipped[0] : concat(skipped.size(), " skipped");
  };
  const auto metric =
      write("u/results_1.json", R"({"results": {"t": {"acc,none": 1, "alias": "t", "hist,none": [1]}}})");
  EXPECT_EQ(one(metric), "results_1.json: results.t.hist,none is array, no number");
  EXPECT_NE(rows().find("t acc,none|1.0"), std::string::npos);
  const auto layout = write("u/results_2.json", R"({"humaneval": {"pass@1": 0.5}, "config": {}})");
  EXPECT_NE(one(layout).find("it has no object 'results'; its members: config, humaneval"), std::string::npos);
  EXPECT_NE(one(write("u/results_3.json", R"({"results": {"t": {"alias": "t"}}})")).find("no metric of 1 tasks"),
            std::string::npos);
  EXPECT_NE(one(write("u/results_4.json", R"({"results": {}})")).find("no metric of 0 tasks"), std::string::npos);
  EXPECT_NE(one(write("u/samples_t.jsonl", "{\"doc_id\": 0, \"metrics\": [\"ppl\"], \"ppl\": [-3.5, 2]}\n"))
                .find("ppl,none of 1 samples is no number"),
            std::string::npos);
}

TEST_F(Exchange, AFoldersOtherFilesAreToldAndBrokenResultsSkipped) {
  write("f/results_1.json", R"({"results": {"t": {"acc,none": 1}}})");
  write("f/config.json", R"({"architectures": ["x"]})");
  write("f/sub/train.log", "...");
  write("f/data.jsonl", "{\"text\": \"a\"}\n");
  EXPECT_EQ(told([&] { EXPECT_EQ(lm_eval(folder_ / "f").skipped, std::vector<std::string>()); }),
            "kvc: note: f: no results of lm-eval, not read: config.json, data.jsonl, sub/train.log\n");
  write("f/run1.json", R"({"results": {"t": {"acc": 1)");
  write("f/run2_2026-01-02T03-04-05.json", "{");
  const auto skipped = lm_eval(folder_ / "f").skipped;
  ASSERT_EQ(skipped.size(), 2u);
  EXPECT_NE(skipped[0].find("run1.json:1:28: error: not JSON"), std::string::npos) << skipped[0];
  EXPECT_NE(skipped[1].find("run2_2026-01-02T03-04-05.json:1:2: error: not JSON"), std::string::npos) << skipped[1];
}

TEST_F(Exchange, KvpressFoldersThatAreNotWholeOrNotKnownAreNamed) {
  const auto config = [](int ratio) {
    return concat("dataset: d\nmodel: m\npress_name: knorm\ncompression_ratio: ", ratio, "\n");
  };
  write("k/config.yaml", config(1));
  write("k/metrics.json", R"([{"rouge-1": {"f": 0.5}}, {"rouge-1": {"f": 1}}])");  // as of needle_in_haystack
  write("k/1/config.yaml", config(1));                                             // a second run of the same
  write("k/1/metrics.json", R"([{"rouge-1": {"f": 0.25}}])");
  write("k/stopped/config.yaml", config(2));
  write("k/text/config.yaml", config(3));
  write("k/text/metrics.json", R"({"t": {"score": "high", "n": 3}})");
  const auto imported = kvpress(folder_ / "k");
  EXPECT_EQ(imported.n_new, 3);
  ASSERT_EQ(imported.skipped.size(), 3u);
  EXPECT_NE(imported.skipped[0].find("k/1: the same dataset, model, press and settings as "), std::string::npos);
  EXPECT_NE(imported.skipped[1].find("stopped/metrics.json': No such file"), std::string::npos) << imported.skipped[1];
  EXPECT_NE(imported.skipped[2].find("metrics.json: t.score is string, no number"), std::string::npos);
  EXPECT_NE(rows().find("|compression_ratio 1|0.rouge-1.f|0.5||"), std::string::npos) << rows();
}

// By hand: exact_match of strict-match 1, 0, 1, 1 is 0.75, its standard error sqrt(0.75 * 0.25 / 3) = 0.25.
TEST_F(Exchange, SamplesOfLmEvalBecomeTheMeansOfTheirMetrics) {
  write(
      "m/results_2024-05-01T10-00-00.json",
      R"({"model_name": "org/m", "config": {"model": "hf"}, "results": {"gsm8k": {"exact_match,strict-match": 0.75}}})");
  std::string lines;
  for (const int right : {1, 0, 1, 1}) {
    lines += concat(R"({"doc_id": 7, "doc": {"exact_match": 9}, "filter": "strict-match", "metrics": ["exact_match"],)",
                    R"( "exact_match": )", right, R"(, "seconds": 3})", "\n");
  }
  write("m/samples_gsm8k_2024-05-01T10-00-00.jsonl", lines);
  write("m/samples_arc_easy_2024-05-01T10-00-00.jsonl", R"({"doc_id": 0, "acc": true})"
                                                        "\n");  // of an older lm-eval
  write("m/samples_bad_2024-05-01T10-00-00.jsonl", "{\"doc_id\": 0, \"acc\": 1}\n{\"doc_id\"\n");
  const auto imported = lm_eval(folder_ / "m");
  ASSERT_EQ(imported.skipped.size(), 1u);
  EXPECT_NE(imported.skipped[0].find("samples_bad_2024-05-01T10-00-00.jsonl:2:"), std::string::npos);
  EXPECT_EQ(rows(),
            "lm-eval|samples_arc_easy_2024-05-01T10-00-00.jsonl|org/m|hf||arc_easy acc,none|1.0||"
            "mean of 1 samples, stderr 0\n"
            "lm-eval|samples_gsm8k_2024-05-01T10-00-00.jsonl|org/m|hf||gsm8k exact_match,strict-match|0.75||"
            "mean of 4 samples, stderr 0.25\n");
}

// lm-eval's samples hold log-likelihoods under the name of a perplexity: their mean is not the results' number.
TEST_F(Exchange, ATasksNumberAndTheEqualMeanOfItsSamplesAreOneRowInAnyOrder) {
  const auto results =
      write("o/results_2024-05-01T10-00-00.json",
            R"({"model_name": "org/m", "results": {"a": {"acc,none": 0.5, "ppl,none": 7.5, "f1,none": 1}}})");
  EXPECT_EQ(lm_eval(results).n_new, 3);
  write("o/samples_a_2024-05-01T10-00-00.jsonl",
        "{\"doc_id\": 0, \"acc\": 1, \"ppl\": -2}\n{\"doc_id\": 1, \"acc\": 0, \"ppl\": -2}\n");
  const auto samples = lm_eval(folder_ / "o" / "samples_a_2024-05-01T10-00-00.jsonl");
  EXPECT_EQ(samples.n_new, 2);
  EXPECT_EQ(samples.n_left_out, 1);
  const auto* expected =
      "lm-eval|results_2024-05-01T10-00-00.json|org/m|||a f1,none|1.0||\n"
      "lm-eval|results_2024-05-01T10-00-00.json|org/m|||a ppl,none|7.5||\n"
      "lm-eval|samples_a_2024-05-01T10-00-00.jsonl|org/m|||a acc,none|0.5||mean of 2 samples, stderr 0.5\n"
      "lm-eval|samples_a_2024-05-01T10-00-00.jsonl|org/m|||a ppl,none|-2.0||mean of 2 samples, stderr 0\n";
  EXPECT_EQ(rows(), expected);
  const auto again = lm_eval(folder_ / "o");
  EXPECT_EQ(again.n_new + again.n_changed, 0);
  EXPECT_EQ(again.n_equal, 4);
  EXPECT_EQ(again.n_left_out, 1);
  EXPECT_EQ(rows(), expected);
}

}  // namespace
}  // namespace kvc
