#include <optional>

#include "exchange/import.h"
#include "store/result_store.h"
#include "target.h"

namespace kvc_fuzz {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

kvc::Database& empty_database() {
  static auto store = kvc::ResultStore::open(":memory:");
  store.database().execute("DELETE FROM external_result");
  return store.database();
}

void check_rows(kvc::Database& db, const kvc::Imported& imported) {
  promise(db.integer("SELECT count(*) FROM external_result") == imported.n_new, "other rows than it says");
  promise(db.integer("SELECT count(*) FROM external_result WHERE abs(value) > 1e308") == 0, "an infinite value");
}

std::vector<json> lm_eval_seeds() {
  const json metrics = {
      {"alias", "gsm8k"}, {"exact_match,strict-match", 0.5}, {"exact_match_stderr,strict-match", 0.1}};
  return {{{"results", {{"gsm8k", metrics}, {"piqa", {{"acc,none", 0.25}, {"acc_stderr,none", "N/A"}}}}},
           {"config", {{"model", "hf"}, {"model_args", "pretrained=x,dtype=float"}}},
           {"model_name", "x"}},
          {{"results", {{"gsm8k", metrics}}},
           {"config", {{"model", "hf"}, {"model_args", {{"pretrained", "x"}, {"bits", 4}}}}},
           {"kv_compression", {{"method", "kivi"}}},
           {"model_name", "x"}}};
}

std::vector<json> kvpress_seeds() {
  const json config = {{"dataset", "ruler"}, {"data_dir", "4096"},       {"model", "m"},    {"press_name", "snapkv"},
                       {"device", nullptr},  {"compression_ratio", 0.5}, {"fraction", 1.0}, {"query_aware", false}};
  return {config,
          {{"niah", {{"string_match", 98.5}}}, {"vt", {{"string_match", nullptr}, {"deep", {{"er", 1}}}}}},
          "dataset: ruler\nmodel: m\npress_name: snapkv\ncompression_ratio: 0.5\nlist: [1, {a: b}]\n"};
}

void write_kvpress(const fs::path& dir, std::string text, Mutator& mutator) {
  const auto seeds = kvpress_seeds();
  const bool is_config = mutator.one_in(2);
  write_file(dir / "config.yaml", is_config ? text : seeds[0].dump());
  write_file(dir / "metrics.json", is_config ? seeds[1].dump() : text);
}

}  // namespace

Target lm_eval_target() {
  return {"lm_eval",
          20,
          lm_eval_seeds(),
          {"results", "config", "model", "model_args", "model_name", "kv_compression", "method", "acc,none", ",",
           "acc_stderr,none", "_stderr,", "alias"},
          [](const fs::path&) {},
          [](const fs::path& dir, std::string text, Mutator&) { write_file(dir / "results_x.json", text); },
          [](const fs::path& dir) {
            auto& db = empty_database();
            check_rows(db, kvc::import_lm_eval(db, dir / "results_x.json"));
          }};
}

Target kvpress_target() {
  return {"kvpress",
          10,
          kvpress_seeds(),
          {"dataset", "data_dir", "model", "press_name", "null", "string_match", "&a", "*a", "---\n", "."},
          [](const fs::path&) {},
          write_kvpress,
          [](const fs::path& dir) {
            auto& db = empty_database();
            check_rows(db, kvc::import_kvpress(db, dir));
          }};
}

}  // namespace kvc_fuzz
