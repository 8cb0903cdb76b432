// Files for and from other programs.
#include <fstream>
#include <nlohmann/json.hpp>

#include "../store/store_fixture.h"
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
            std::vector<std::string>{path.string() + ": error: not JSON: number overflow parsing '1e400'"});
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
  EXPECT_NE(skipped().find("results_2.json: error: not JSON"), std::string::npos);
  EXPECT_EQ(rows(), "lm-eval|results_1.json||||a acc,none|1.0||\n");
  write("bad/results_2.json", R"({"results": {"a": {"acc,none": 1e999}}})");
  EXPECT_NE(skipped().find("results_2.json: error: not JSON"), std::string::npos);
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
