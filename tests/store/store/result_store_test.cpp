#include <limits>

#include "store_fixture.h"
#include "support/stable_dump.h"

namespace kvc {
namespace {

using ResultStoreTest = OpenStoreTest;

TEST_F(ResultStoreTest, PuttingTwiceChangesNothing) {
  store_.put_cell(make_cell("c", "low", "t/a"));
  EXPECT_EQ(store_.put_sample(make_sample("c", 0)), ResultStore::Put::kStored);
  const auto once = stable_dump(store_.database());
  store_.put_cell(make_cell("c", "low", "t/a"));
  EXPECT_EQ(store_.put_sample(make_sample("c", 0)), ResultStore::Put::kIsThere);
  EXPECT_EQ(stable_dump(store_.database()), once);
  EXPECT_EQ(store_.database().integer("SELECT count(*) FROM cell_provenance"), 1);
}

TEST_F(ResultStoreTest, AnOkSampleIsNeverChanged) {
  store_.put_cell(make_cell("c", "low", "t/a"));
  store_.put_sample(make_sample("c", 0));
  const auto before = stable_dump(store_.database());
  auto other = make_sample("c", 0);
  other.generation = "something else";
  EXPECT_EQ(store_.put_sample(other), ResultStore::Put::kIsThere);
  EXPECT_EQ(store_.put_sample(failed_sample("c", 0)), ResultStore::Put::kIsThere);
  EXPECT_EQ(stable_dump(store_.database()), before);
}

TEST_F(ResultStoreTest, AFailedSampleIsReplacedAndLeavesNoTrace) {
  store_.put_cell(make_cell("c", "low", "t/a"));
  EXPECT_EQ(store_.put_sample(failed_sample("c", 0)), ResultStore::Put::kStored);
  EXPECT_TRUE(store_.finished_samples("c").empty());
  EXPECT_EQ(store_.cell_status("c")->n_failed, 1);
  auto again = failed_sample("c", 0);
  again.error = "another reason";
  EXPECT_EQ(store_.put_sample(again), ResultStore::Put::kStored);
  EXPECT_EQ(store_.database().text("SELECT error FROM sample"), "another reason");
  EXPECT_EQ(store_.put_sample(make_sample("c", 0)), ResultStore::Put::kStored);
  EXPECT_EQ(store_.finished_samples("c"), std::set<int64_t>{0});

  auto clean = ResultStore::open(folder_ / "clean.sqlite");
  clean.put_cell(make_cell("c", "low", "t/a"));
  clean.put_sample(make_sample("c", 0));
  EXPECT_EQ(stable_dump(store_.database()), stable_dump(clean.database()));
}

TEST_F(ResultStoreTest, ScoresByAnotherScoringThanTheCellsAreNotStored) {
  auto cell = make_cell("c", "low", "t/a");
  cell.scoring_json = "first";
  store_.put_cell(cell);
  cell.scoring_json = "second";
  store_.put_cell(cell);  // it stays the first
  auto sample = make_sample("c", 0);
  sample.scoring_json = "second";
  EXPECT_EQ(store_.put_sample(sample), ResultStore::Put::kOtherScoring);
  EXPECT_EQ(store_.database().integer("SELECT count(*) FROM sample"), 0);
  sample.status = "failed";
  sample.scores.clear();
  EXPECT_EQ(store_.put_sample(sample), ResultStore::Put::kStored);
  store_.put_sample(failed_sample("c", 1));  // without a generation
  EXPECT_EQ(store_.finished_samples("c"), std::set<int64_t>{});
  EXPECT_EQ(store_.generated_samples("c"), std::set<int64_t>{0});
  sample.status = "ok";
  sample.scoring_json = "first";
  EXPECT_EQ(store_.put_sample(sample), ResultStore::Put::kStored);
  EXPECT_EQ(store_.generated_samples("c"), std::set<int64_t>{0});
}

TEST_F(ResultStoreTest, AReplacedFailureTakesItsScoresAndBytesAlong) {
  store_.put_cell(make_cell("c", "low", "t/a"));
  auto failed = make_sample("c", 0);
  failed.status = "failed";
  store_.put_sample(failed);
  store_.put_sample(failed_sample("c", 0));
  EXPECT_EQ(store_.database().integer("SELECT count(*) FROM score"), 0);
  EXPECT_EQ(store_.database().integer("SELECT count(*) FROM kv_bytes"), 0);
}

TEST_F(ResultStoreTest, EqualPromptsAreStoredOnce) {
  for (const std::string key : {"a", "b", "c"}) {
    store_.put_cell(make_cell(key, key, "t/a"));
    store_.put_sample(make_sample(key, 5));
  }
  EXPECT_EQ(store_.database().integer("SELECT count(*) FROM text"), 1);
  EXPECT_EQ(store_.database().text("SELECT body FROM text"), "Q: 5\nA:");
}

TEST_F(ResultStoreTest, ACellMayBelongToSeveralExperimentsAndHosts) {
  auto cell = make_cell("c", "low", "t/a");
  store_.put_cell(cell);
  cell.experiment = "second";
  cell.provenance_json = R"({"host":"b"})";
  cell.n_samples = 9;
  store_.put_cell(cell);
  EXPECT_EQ(store_.database().integer("SELECT count(*) FROM experiment_cell"), 2);
  EXPECT_EQ(store_.database().integer("SELECT count(*) FROM cell_provenance"), 2);
  EXPECT_EQ(store_.cell_status("c")->n_missing, 9);
}

// A label is no part of what a cell is: the same cell has one in each experiment, and the last word stands.
TEST_F(ResultStoreTest, ALabelIsAnExperimentsNameForACell) {
  auto cell = make_cell("c", "low", "t/a");
  cell.label = "two bits", cell.position = 3;
  store_.put_cell(cell);
  store_.put_cell(cell);
  cell.experiment = "second", cell.label = "ours", cell.position = 1;
  store_.put_cell(cell);
  const std::string all =
      "SELECT group_concat(experiment || ' ' || label || ' ' || position || cell_key) FROM experiment_cell";
  EXPECT_EQ(store_.database().text(all), "second ours 1c,trial two bits 3c");
  cell.label = "";
  store_.put_cell(cell);
  EXPECT_EQ(store_.database().text(all), "second  1c,trial two bits 3c");
}

// An option or the plugin has changed: the row shows the new cell; the old one stays for other experiments.
TEST_F(ResultStoreTest, ANewCellTakesItsLabelFromTheOld) {
  for (const std::string key : {"old", "new"}) {
    auto cell = make_cell(key, "low", "t/a");
    cell.label = "two bits";
    store_.put_cell(cell);
  }
  auto other_task = make_cell("other", "low", "t/b");
  other_task.label = "two bits";
  store_.put_cell(other_task);
  EXPECT_EQ(
      store_.database().text("SELECT group_concat(cell_key) FROM experiment_cell WHERE experiment NOT LIKE '%@older'"),
      "new,other");
  EXPECT_EQ(store_.database().integer("SELECT count(*) FROM cell"), 3);
}

TEST_F(ResultStoreTest, TheSameKeyWithOtherContentIsRefused) {
  auto cell = make_cell("c", "low", "t/a");
  store_.put_cell(cell);
  cell.options_json = R"({"bits":3})";
  EXPECT_EQ(message_of([&] { store_.put_cell(cell); }),
            concat("results database '", path_.string(),
                   "': cell c (low, t/a) is there with other content under the same key"));
}

TEST_F(ResultStoreTest, ABadSampleStoresNothing) {
  store_.put_cell(make_cell("c", "low", "t/a"));
  auto sample = make_sample("c", 0);
  sample.bytes.push_back({0, "k", "codes", 1});  // the same row twice
  EXPECT_EQ(message_of([&] { store_.put_sample(sample); }),
            concat("results database '", path_.string(), "': UNIQUE constraint failed: kv_bytes.cell_key, ",
                   "kv_bytes.sample, kv_bytes.layer, kv_bytes.stage, kv_bytes.tensor, kv_bytes.kind"));
  EXPECT_EQ(store_.database().integer("SELECT count(*) FROM sample"), 0);
  EXPECT_EQ(store_.put_sample(make_sample("c", 0)),
            ResultStore::Put::kStored);  // the failed transaction is not left open
  sample.status = "fine";
  EXPECT_EQ(message_of([&] { store_.put_sample(sample); }), "sample 0: status is 'fine', allowed: ok, failed");
  EXPECT_EQ(message_of([&] { store_.put_sample(make_sample("no such cell", 0)); }),
            concat("results database '", path_.string(), "': FOREIGN KEY constraint failed"));
}

TEST_F(ResultStoreTest, ACompositionsStagesAreKeptWithTheirBytesAndTimes) {
  auto cell = make_cell("c", "low+high", "t/a");
  cell.stages = {{"low", "sha of low", "stage 1", "{}"}, {"high", "sha of high", "stage 2", R"({"bits":8})"}};
  store_.put_cell(cell);
  store_.put_cell(cell);
  auto sample = make_sample("c", 0);
  sample.bytes = {{0, "k", "codes", 10, 1}, {0, "k", "codes", 20, 2}, {0, "k", "recent", 3}};
  sample.stages = {{0, 0.5, 0.25}, {1, 1, 2}, {2, 3, 4}};
  store_.put_sample(sample);
  auto& db = store_.database();
  EXPECT_EQ(db.text("SELECT group_concat(stage || plugin || plugin_sha256 || place || options_json) FROM stage"),
            R"(1lowsha of lowstage 1{},2highsha of highstage 2{"bits":8})");
  EXPECT_EQ(db.text("SELECT group_concat(stage || kind || bytes) FROM kv_bytes"), "0recent3,1codes10,2codes20");
  EXPECT_EQ(db.text("SELECT group_concat(stage || ' ' || encode_seconds || ' ' || attend_seconds) FROM stage_time"),
            "0 0.5 0.25,1 1.0 2.0,2 3.0 4.0");
}

TEST_F(ResultStoreTest, NotANumberIsStoredAsNull) {
  store_.put_cell(make_cell("c", "low", "t/a"));
  auto sample = make_sample("c", 0);
  sample.k_error = std::numeric_limits<double>::quiet_NaN();
  store_.put_sample(sample);
  EXPECT_EQ(store_.database().integer("SELECT k_error IS NULL AND v_error = 0.005 FROM sample"), 1);
}

TEST_F(ResultStoreTest, TheDumpLeavesOutTimesPeaksAndHosts) {
  store_.put_cell(make_cell("c", "low", "t/a"));
  store_.put_sample(make_sample("c", 1));
  store_.put_sample(make_sample("c", 0));
  auto other = ResultStore::open(folder_ / "other.sqlite");
  auto cell = make_cell("c", "low", "t/a");
  cell.provenance_json = R"({"host":"another"})";
  other.put_cell(cell);
  for (int64_t i : {0, 1}) {
    auto sample = make_sample("c", i);
    sample.attend_seconds = 77;
    sample.peak_kv_bytes = 5;
    other.put_sample(sample);
  }
  const auto dump = stable_dump(store_.database());
  EXPECT_EQ(dump, stable_dump(other.database()));
  EXPECT_NE(dump.find(R"(score ["c",0,"first",0,"4",1.0])"), std::string::npos) << dump;
  EXPECT_NE(dump.find(R"(kv_bytes ["c",1,0,0,"v","codes",150])"), std::string::npos) << dump;
  EXPECT_EQ(dump.find("host"), std::string::npos);
}

struct SuspectCase {
  std::string reason;
  bool lossy;
  int64_t n_encoded_tokens;
  double k_error, v_error;
  int64_t kv_bytes;
};

TEST_F(ResultStoreTest, ALossyCellThatLosesNothingIsSuspect) {
  const SuspectCase cases[] = {
      {"", true, 10, 0.1, 0.2, 250},
      {"no token was compressed", true, 0, 0.1, 0.2, 250},
      {"keys and values came back without any error", true, 10, 0, 0, 250},
      {"", true, 10, 0, 0.2, 250},  // values alone may be compressed
      {"the cache is not smaller than at 16 bits", true, 10, 0.1, 0.2, 1000},
      {"", true, 10, 0.1, 0.2, 999},
      {"", false, 0, 0, 0, 1000},
      {"", false, 0, 0.004, 0.002, 1000},  // 16-bit storage
      {"keys and values changed, but the compressor is declared lossless", false, 0, 0.3, 0.2, 250},
  };
  int n = 0;
  for (const auto& c : cases) {
    const auto key = concat("cell ", n++);
    auto cell = make_cell(key, "low", "t/a");
    cell.lossy = c.lossy;
    store_.put_cell(cell);
    auto sample = make_sample(key, 0);
    sample.n_encoded_tokens = c.n_encoded_tokens;
    sample.k_error = c.k_error;
    sample.v_error = c.v_error;
    sample.kv_bytes = c.kv_bytes;
    store_.put_sample(sample);
    EXPECT_EQ(store_.cell_status(key)->suspect, c.reason) << key;
    EXPECT_EQ(store_.cell_status(key)->n_missing, 1);
  }
  // One good sample clears nothing.
  auto mixed = make_cell("mixed", "low", "t/a");
  mixed.lossy = true;
  store_.put_cell(mixed);
  const auto put = [&](int64_t i, int64_t n_encoded, double error) {
    auto sample = make_sample("mixed", i);
    sample.n_encoded_tokens = n_encoded;
    sample.k_error = sample.v_error = error;
    sample.kv_bytes = 250;
    store_.put_sample(sample);
    return store_.cell_status("mixed")->suspect;
  };
  EXPECT_EQ(put(0, 10, 0.1), "");
  EXPECT_EQ(put(1, 0, 0), "");
  EXPECT_EQ(put(2, 0, 0), "no token was compressed in 2 of 3 samples");
  EXPECT_EQ(put(3, 10, 0.1), "");
  EXPECT_EQ(put(4, 10, 0), "keys and values came back without any error in 1 of 5 samples");
  auto empty = make_cell("empty", "low", "t/a");
  empty.lossy = true;
  store_.put_cell(empty);
  EXPECT_EQ(store_.cell_status("empty")->suspect, "");
  EXPECT_FALSE(store_.cell_status("unknown").has_value());
}

// What holds short prompts exactly is no scandal where it is seen to encode longer ones, and costs what 16 bits cost.
TEST_F(ResultStoreTest, ShortPromptsAreNotSuspectOfACompressorThatEncodesLongerOnes) {
  const auto suspect_of = [&](const std::string& key, int64_t kv_bytes, std::vector<CacheSize> sizes) {
    auto cell = make_cell(key, "low", "t/a");
    cell.lossy = true;
    store_.put_cell(cell);
    auto sample = make_sample(key, 0);
    sample.n_encoded_tokens = 0;
    sample.k_error = sample.v_error = 0;
    sample.kv_bytes = kv_bytes;
    store_.put_sample(sample);
    if (!sizes.empty()) store_.put_sizes(key, sizes);
    return store_.cell_status(key)->suspect;
  };
  CacheSize encodes;
  encodes.n_tokens = 4096, encodes.n_encoded_numbers = 1000;
  CacheSize never = encodes;
  never.n_encoded_numbers = 0;
  EXPECT_EQ(suspect_of("short", 1000, {encodes}), "");
  CacheSize evicts = never;
  evicts.kv_bytes = 100, evicts.kv_bytes_fp16 = 1000;
  EXPECT_EQ(suspect_of("evicts", 1000, {evicts}), "");
  EXPECT_EQ(suspect_of("never", 1000, {never}), "no token was compressed");
  EXPECT_EQ(suspect_of("unknown", 1000, {}), "no token was compressed");
  EXPECT_EQ(suspect_of("too small", 250, {encodes}), "no token was compressed");
  EXPECT_EQ(store_.database().integer("SELECT n_not_encoded FROM v_cell WHERE key = 'short'"), 1);
}

}  // namespace
}  // namespace kvc
