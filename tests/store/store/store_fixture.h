// A results database in a folder of its own, and records to put into it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "kvc/check.h"
#include "store/result_store.h"
#include "support/message_of.h"
#include "support/temp_folder.h"

namespace kvc {

using test::message_of;

class StoreTest : public testing::Test {
 protected:
  test::TempFolder folder_;
  const std::filesystem::path path_ = folder_ / "results.sqlite";
};

class OpenStoreTest : public StoreTest {
 protected:
  ResultStore store_ = ResultStore::open(path_);
};

inline CellRecord make_cell(const std::string& key, const std::string& plugin, const std::string& task) {
  CellRecord cell;
  cell.key = key;
  cell.experiment = "trial";
  cell.model_label = "tiny";
  cell.task = task;
  cell.model_json = "{}";
  cell.task_json = "{}";
  cell.plugin = plugin;
  cell.plugin_sha256 = "sha of " + plugin;
  cell.options_json = "{}";
  cell.generation_json = "{}";
  cell.provenance_json = R"({"host":"a"})";
  cell.n_samples = 2;
  return cell;
}

inline SampleRecord make_sample(const std::string& cell_key, int64_t sample, double score = 1) {
  SampleRecord record;
  record.cell_key = cell_key;
  record.sample = sample;
  record.status = "ok";
  record.prompt = concat("Q: ", sample, "\nA:");
  record.generation = " 4";
  record.gold = "4";
  record.n_prompt_tokens = 10;
  record.n_new_tokens = 20;
  record.stop_reason = "stop";
  record.token_ids_json = "[7,8]";
  record.scores = {{"first", "4", score}, {"second", std::nullopt, 0}};
  record.bytes = {{0, "k", "codes", 100}, {0, "v", "codes", 150}};
  record.kv_bytes = 250;
  record.kv_bytes_fp16 = 1000;
  record.paper_bytes = 200;
  record.n_encoded_tokens = 10;
  record.k_error = 0.004;
  record.v_error = 0.005;
  record.peak_kv_bytes = 1 << 20;
  record.encode_seconds = 0.5;
  record.attend_seconds = 1;
  record.other_seconds = 0.5;
  record.prefill_seconds = 8;
  return record;
}

inline SampleRecord failed_sample(const std::string& cell_key, int64_t sample) {
  SampleRecord record;
  record.cell_key = cell_key;
  record.sample = sample;
  record.status = "failed";
  record.error = "out of memory";
  return record;
}

}  // namespace kvc
