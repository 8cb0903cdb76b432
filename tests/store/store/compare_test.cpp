// Numbers by hand where they are round; intervals from the likelihood maximized numerically by scipy.
#include "analysis/compare.h"

#include <gmock/gmock.h>

#include "store_fixture.h"

namespace kvc {
namespace {

// t/a: full answers 8 of 8, low 2 of 8, in the samples 0 and 1 with equal tokens; else they differ from position 1 on,
// and low is 4 tokens longer. t/b: three graded answers, 0.25, 0.5 and 0.75 lower, one of them at the limit.
class CompareTest : public OpenStoreTest {
 protected:
  static CellRecord cell(const std::string& plugin, const std::string& task, int64_t bits = 2) {
    auto record = make_cell(plugin + task + std::to_string(bits), plugin, task);
    record.options_json = plugin == "full" ? "{}" : concat(R"({"bits":)", bits, R"(,"mode":"fast"})");
    record.options_label = plugin == "full" ? "" : concat("bits ", bits);
    record.generation_json = concat(R"({"max_new_tokens":)", task == "t/a" ? 9 : 7, R"(,"seed":0})");
    record.n_samples = task == "t/a" ? 8 : 3;
    return record;
  }

  static void fill(ResultStore& store, const std::string& plugin, double lost = 1, int64_t bits = 2) {
    const bool is_full = plugin == "full";
    const auto a = cell(plugin, "t/a", bits), b = cell(plugin, "t/b", bits);
    store.put_cell(a);
    store.put_cell(b);
    for (int64_t i = 0; i < 8; ++i) {
      auto sample = make_sample(a.key, i, is_full || i < 2 ? 1 : 1 - lost);
      sample.n_prompt_tokens_before = i == 7 ? 11 : 10;
      if (!is_full && i >= 2) {
        sample.token_ids_json = "[7,9]";
        sample.n_new_tokens = 24;
      }
      store.put_sample(sample);
    }
    for (int64_t i = 0; i < 3; ++i) {
      const double fall = 0.25 * static_cast<double>(i + 1);
      auto sample = make_sample(b.key, i, is_full ? 1 : 1 - lost * fall);
      sample.n_prompt_tokens_before = 10;
      if (!is_full) sample.token_ids_json = i == 0 ? "[7,8,9]" : "[1]";
      if (!is_full && i == 2) sample.stop_reason = "limit";
      store.put_sample(sample);
    }
  }

  CompareReport compare(ResultStore& store, CompareOptions options) {
    return compare_groups(store.database(), store.database(), options);
  }
};

CompareOptions names(const std::string& a, const std::string& b) {
  CompareOptions options;
  options.a = a;
  options.b = b;
  return options;
}

TEST_F(CompareTest, PairsEachTaskAndAllOfThem) {
  fill(store_, "full");
  fill(store_, "low");
  auto options = names("full", "low bits=2");
  options.margin = 0.2;
  const auto report = compare(store_, options);
  ASSERT_EQ(report.rows.size(), 3u);
  const auto& binary = report.rows[0].comparison;
  EXPECT_EQ(binary.n, 8);
  EXPECT_EQ(binary.score_a, 1);
  EXPECT_EQ(binary.score_b, 0.25);
  EXPECT_EQ(binary.test, "McNemar (exact)");
  EXPECT_EQ(binary.p, 0.03125);  // 6:0
  EXPECT_NEAR(binary.difference.low, -0.9285208, 1e-5);
  EXPECT_NEAR(binary.difference.high, -0.1822868, 1e-5);
  EXPECT_NEAR(binary.equivalence->p_no_worse, 0.9722445, 1e-5);
  EXPECT_NEAR(binary.equivalence->p_no_better, 0.0010274, 1e-5);
  EXPECT_EQ(binary.n_fell, 6);
  EXPECT_EQ(binary.n_rose, 0);
  EXPECT_EQ(binary.mean_longer, 3);  // 6 of 8 by 4
  EXPECT_EQ(binary.median_longer, 4);
  EXPECT_EQ(binary.truncated, 0.125);
  EXPECT_EQ(binary.at_limit_b, 0);
  EXPECT_EQ(binary.identical, 0.25);
  EXPECT_EQ(binary.median_first_difference, 1);

  const auto& graded = report.rows[1].comparison;
  EXPECT_EQ(graded.test, "sign flips (exact)");
  EXPECT_EQ(graded.p, 0.25);
  EXPECT_EQ(graded.score_b, 0.5);
  EXPECT_GE(graded.difference.low, -0.75);
  EXPECT_LE(graded.difference.high, -0.25);
  EXPECT_NEAR(graded.equivalence->p_no_worse, 0.9133837, 1e-5);
  EXPECT_NEAR(graded.equivalence->p_no_better, 0.0199922, 1e-5);
  EXPECT_NEAR(graded.at_limit_b, 1.0 / 3, 1e-12);
  EXPECT_EQ(graded.at_limit_a, 0);
  EXPECT_EQ(graded.median_first_difference, 0);  // [7,8] to [7,8,9] at 2, twice [1] at 0

  const auto& all = report.rows[2].comparison;
  EXPECT_EQ(report.rows[2].task, "all tasks");
  EXPECT_EQ(all.n, 11);
  EXPECT_EQ(all.p, 2.0 / 512);  // nine fell, none rose
  EXPECT_NEAR(report.rows[2].p_holm, 3 * 2.0 / 512, 1e-12);
  EXPECT_NEAR(report.rows[0].p_holm, 2 * 0.03125, 1e-12);
  EXPECT_NEAR(report.rows[1].p_holm, 0.25, 1e-12);
}

TEST_F(CompareTest, TheTableSaysWhatIsCompared) {
  fill(store_, "full");
  fill(store_, "low");
  auto options = names("full", "low");
  options.filter.tasks = {"t/a"};
  const auto table = compare_table(compare(store_, options));
  EXPECT_EQ(table.title, "B against A = full, tiny");
  const auto csv = write_csv(table);
  EXPECT_EQ(csv.substr(0, csv.find("\r\n")),
            "B,task,n,score A [%],score B [%],difference [points],low [points],high [points],test,p,p "
            "(Holm),regressed,improved,"
            "\"extra tokens, mean\",\"extra tokens, median\",truncated [%],at limit A [%],at limit B [%],"
            "in a loop A [%],in a loop B [%],identical [%],\"first divergence, median [token]\"");
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(std::get<std::string>(table.rows[0][0]), "low bits 2");
  EXPECT_EQ(std::get<double>(table.rows[0][5]), -75);
}

TEST_F(CompareTest, ABaselineMeetsAllOthersAndItselfNot) {
  fill(store_, "full");
  fill(store_, "low", 1, 2);
  fill(store_, "low", 0, 4);
  const auto report = compare(store_, names("full", ""));
  ASSERT_EQ(report.rows.size(), 6u);
  EXPECT_EQ(report.rows[0].b, "low bits 2");
  EXPECT_EQ(report.rows[3].b, "low bits 4");
  EXPECT_EQ(report.rows[3].comparison.p, 1);
  EXPECT_NEAR(report.rows[2].p_holm, 6 * 2.0 / 512, 1e-12);
}

TEST_F(CompareTest, TheGateNamesRowsThatFellTooFarAndSurely) {
  fill(store_, "full");
  fill(store_, "low");
  const auto report = compare(store_, names("full", "low"));
  const auto worse = worse_rows(report, 10);
  ASSERT_EQ(worse.size(), 1u);  // t/a: p (Holm) 0.0625; t/b: 0.25
  EXPECT_EQ(worse[0], "low bits 2 on all tasks: 68.18 points below full, p (Holm) 0.0117; allowed: 10 points");
  EXPECT_TRUE(worse_rows(report, 70).empty());
  EXPECT_TRUE(worse_rows(compare(store_, names("low", "full")), 0).empty());  // better is not worse
}

TEST_F(CompareTest, TokensThatAreNoListAreRefusedByName) {
  auto store = ResultStore::open(path_);
  fill(store, "full");
  fill(store, "lossy");
  for (const char* ids : {"[1,", "{}", "[1e999]", "[\"a\"]"}) {
    store.database().prepare("UPDATE sample SET token_ids_json = ?").bind(1, std::string(ids)).run();
    EXPECT_NE(message_of([&] { compare(store, names("full", "lossy")); }).find("token_ids_json is"), std::string::npos);
  }
}

TEST_F(CompareTest, SamplesWithoutAPartnerAreRefusedWithTheirCounts) {
  fill(store_, "full");
  const auto low = cell("low", "t/a");
  store_.put_cell(low);
  store_.put_sample(make_sample(low.key, 0));
  auto sample = make_sample(low.key, 1);
  sample.prompt = "another";
  store_.put_sample(sample);
  sample = make_sample(low.key, 2);
  sample.gold = "5";
  store_.put_sample(sample);
  store_.put_sample(failed_sample(low.key, 3));
  store_.put_sample(make_sample(low.key, 9));
  auto options = names("full", "low");
  options.filter.tasks = {"t/a"};
  const std::string counts =
      "t/a, full and low bits 2: 1 pairs; unpaired: 4 only in the first, 1 only in the second, 1 failed or "
      "not "
      "scored, 2 with another prompt or gold answer";
  EXPECT_EQ(message_of([&] { compare(store_, options); }),
            counts + "; finish the run, or compare only the pairs (--paired-only)");
  options.paired_only = true;
  const auto report = compare(store_, options);
  EXPECT_EQ(report.rows[0].comparison.n, 1);
  EXPECT_EQ(report.notes[0], counts);
  EXPECT_EQ(report.notes[1], "of 1 questions no difference has p < 0.05: 6 are the least");
}

TEST_F(CompareTest, ATaskThatOneLacksIsUnpaired) {
  fill(store_, "full");
  store_.put_cell(cell("low", "t/a"));
  EXPECT_EQ(message_of([&] {
              compare(store_, names("full", "low"));
            }).find("t/a, full and low bits 2: 0 pairs; unpaired: 8 only in the first"),
            0u);
  auto options = names("full", "low");
  options.paired_only = true;
  EXPECT_EQ(message_of([&] { compare(store_, options); }),
            "nothing to compare: 1 pairs of compressors and no paired sample");
}

TEST_F(CompareTest, NamesMustFitExactlyOne) {
  fill(store_, "full");
  fill(store_, "low", 1, 2);
  fill(store_, "low", 0, 4);
  const auto message = [&](const std::string& b) { return message_of([&] { compare(store_, names("full", b)); }); };
  EXPECT_EQ(message("lo"), "unknown compressor 'lo' (did you mean 'low'?); known: full, low");
  EXPECT_EQ(message("low bit=2"),
            "unknown option of low 'bit' (did you mean 'bits'?); known: bits, mode, plugin_sha256, seed");
  EXPECT_EQ(message("low bits=3"), "no compressor is 'low bits=3'; there are: 'low bits 2', 'low bits 4'");
  EXPECT_EQ(message("low bits"),
            "compressor 'low bits': 'bits' is not key=value; allowed: PLUGIN [key=value]..., or a label as `kvc table` "
            "prints it");
  EXPECT_EQ(message("low mode=fast").find("compressor 'low mode=fast' names several: 'low bits 2'"), 0u);
  EXPECT_EQ(message("low bits=4"), "no error");
  EXPECT_EQ(message("low bits 4"), "no error");  // a label as printed
  EXPECT_EQ(message("low bits=4 seed=0 mode=fast"), "no error");
}

TEST_F(CompareTest, TwoDatabasesAreComparedByNameWhateverTheBinary) {
  auto new_store = ResultStore::open(folder_ / "new.sqlite");
  fill(store_, "low", 0);
  fill(new_store, "low", 1);
  new_store.database().execute("UPDATE cell SET plugin_sha256 = 'rebuilt'");
  const auto report = compare_groups(store_.database(), new_store.database(), {});
  ASSERT_EQ(report.rows.size(), 3u);
  EXPECT_EQ(report.rows[0].comparison.n_fell, 6);
  EXPECT_EQ(compare_table(report).title, "A and B: the same compressors in two databases, tiny");
}

TEST_F(CompareTest, SuspectCellsStayOutAndAreNamed) {
  fill(store_, "full");
  fill(store_, "low", 1, 2);
  fill(store_, "low", 0, 4);
  store_.database().execute("UPDATE cell SET is_lossy = 1 WHERE plugin = 'low'");
  store_.database().execute("UPDATE sample SET n_encoded_tokens = 0 WHERE cell_key LIKE '%4'");
  const auto report = compare(store_, names("full", ""));
  EXPECT_EQ(report.rows.size(), 3u);
  EXPECT_EQ(report.notes[0], "left out as suspect: low bits 4 on t/a: no token was compressed");
}

TEST_F(CompareTest, AnOlderFileIsReadAsAnUpgradedCopyAndUpgradedWhenItIsWritten) {
  fill(store_, "full");
  fill(store_, "low");
  {
    auto db = Database::open(path_, Database::Mode::kReadWrite, 0);
    db.execute(
        "DROP VIEW v_cell; DROP VIEW v_score; ALTER TABLE sample DROP COLUMN n_prompt_tokens_before; "
        "ALTER TABLE sample DROP COLUMN peak_bytes; ALTER TABLE sample DROP COLUMN peak_other_bytes; "
        "ALTER TABLE cell DROP COLUMN kind; ALTER TABLE cell DROP COLUMN scoring_json; "
        "ALTER TABLE experiment_cell DROP COLUMN position; ALTER TABLE experiment_cell DROP COLUMN label; "
        "PRAGMA user_version = 1");
  }
  {
    auto store = ResultStore::open_readonly(path_);
    EXPECT_EQ(compare(store, names("full", "low")).rows.size(), 3u);
  }
  auto store = ResultStore::open(path_);
  store.put_cell(make_cell("c", "low", "t/a"));
  EXPECT_EQ(store.put_sample(make_sample("c", 0)), ResultStore::Put::kStored);
}

TEST_F(CompareTest, ScoresOfOneNameByDifferentRulesAreRefused) {
  fill(store_, "full");
  fill(store_, "low");
  const auto scored_by = [&](const char* plugin, const char* extractors) {
    auto update = store_.database().prepare("UPDATE cell SET scoring_json = ? WHERE plugin = ? AND task = 't/a'");
    update.bind(1, concat(R"({"metric":"accuracy","extractors":[)", extractors, "]}"))
        .bind(2, std::string(plugin))
        .run();
  };
  scored_by("full", R"({"name":"first","steps":[1]})");
  scored_by("low", R"({"name":"second","steps":[]},{"name":"first","steps":[1]})");
  EXPECT_EQ(compare(store_, names("full", "low")).rows.size(), 3u);  // another extractor beside it is no matter
  scored_by("low", R"({"name":"first","steps":[2]})");
  EXPECT_EQ(message_of([&] { compare(store_, names("full", "low")); }),
            "t/a: cells fullt/a2 and lowt/a2 are scored by different extractors named 'first'; `kvc rescore` scores "
            "both by the task file as it is");
}

TEST_F(CompareTest, TasksAreNamedAsExperimentsNameThem) {
  fill(store_, "full");
  fill(store_, "low");
  const auto tasks_of = [&](std::vector<std::string> tasks, bool pooled = false) {
    auto options = names("full", "low");
    options.filter.tasks = std::move(tasks);
    options.pooled = pooled;
    std::vector<std::string> found;
    for (const auto& row : compare(store_, options).rows) found.push_back(row.task);
    return found;
  };
  using testing::ElementsAre;
  EXPECT_THAT(tasks_of({"t/b"}), ElementsAre("t/b"));
  EXPECT_THAT(tasks_of({"t"}), ElementsAre("t/a", "t/b", "all tasks"));
  EXPECT_THAT(tasks_of({"*/[b-z]", "t/b"}), ElementsAre("t/b"));
  EXPECT_THAT(tasks_of({"t/b", "t/a"}), ElementsAre("t/a", "t/b", "all tasks"));
  EXPECT_THAT(tasks_of({"t"}, true), ElementsAre("all tasks"));
  EXPECT_THAT(tasks_of({"t/b"}, true), ElementsAre("t/b"));
  EXPECT_THAT(message_of([&] { tasks_of({"t/a", "t/b*b"}); }), testing::HasSubstr("unknown task 't/b*b'"));
}

TEST_F(CompareTest, AnUnknownTaskModelOrExperimentIsNamed) {
  fill(store_, "full");
  CompareOptions options = names("full", "full");
  options.filter.tasks = {"t/c"};
  EXPECT_EQ(
      message_of([&] { compare(store_, options); }),
      concat("results database '", path_.string(), "': unknown task 't/c' (did you mean 't/a'?); known: t/a, t/b"));
}

}  // namespace
}  // namespace kvc
