// Files that people and programs hand to a plan, and a shard's own number.
#include <stdlib.h>

#include "plan/clusters.h"
#include "plan/run_shard.h"
#include "plan/shard_file.h"
#include "plan_fixture.h"
#include "text/files.h"

namespace kvc {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Plans, ComeBackAsTheyWereWritten) {
  const TempFolder folder;
  auto plan = plan_of({planned("a", "full", 1.5, 0.25), planned("a", "k", 2)});
  plan.cells[1].seconds.reset();
  plan.cells[1].elsewhere = {3, 5};
  write_plan(plan, folder / "p.json");
  const auto back = load_plan(folder / "p.json");
  EXPECT_EQ(nlohmann::json(back), nlohmann::json(plan));
  EXPECT_EQ(back.database_of(12), "/shared/grid/shard-12.sqlite");
}

TEST(Plans, BadOnesAreToldInOneLine) {
  const TempFolder folder;
  const auto said = [&](const std::string& text) {
    return message_of([&] { load_plan(folder.write("p.json", text)); });
  };
  EXPECT_THAT(said("{"), HasSubstr("expected what `kvc plan` writes"));
  EXPECT_THAT(said("[1]"), HasSubstr("expected what `kvc plan` writes"));
  EXPECT_THAT(said(""), HasSubstr("p.json': error: "));
  auto plan = plan_of({planned("a", "full", 1)});
  plan.shards.push_back({0});
  EXPECT_THAT(said(nlohmann::json(plan).dump()), HasSubstr("cell 0 is in two shards, expected one"));
  plan.shards = {{7}};
  EXPECT_THAT(said(nlohmann::json(plan).dump()), HasSubstr("shard 0 names cell 7, expected below 1"));
  plan.format = 2;
  EXPECT_THAT(said(nlohmann::json(plan).dump()), HasSubstr("format is 2, expected 1"));
}

TEST(Clusters, AreReadWithTheirClassesBySize) {
  const TempFolder folder;
  const auto file = folder.write("clusters.yaml",
                                 "north:\n  partition: gpu\n  account: p12\n  time: \"1-12:00:00\"\n  max_array: 501\n"
                                 "  throttle: 8\n  modules: [cuda/12.4]\n  lines: [\"ulimit -c 0\"]\n  classes:\n"
                                 "    large: {memory: 80GB, gres: \"gpu:h100:1\", partition: big}\n"
                                 "    small: {memory: 24GB, constraint: a30}\nsouth: {}\n");
  const auto north = load_cluster(file, "north");
  EXPECT_EQ(north.partition, "gpu");
  EXPECT_EQ(north.seconds, 36 * 3600);
  EXPECT_EQ(north.max_array, 501);
  ASSERT_EQ(north.classes.size(), 2u);
  EXPECT_EQ(north.classes[0].name, "small");
  EXPECT_EQ(north.classes[1].bytes, 80'000'000'000);
  EXPECT_EQ(load_cluster(file, "south").max_array, 1001);
}

TEST(Clusters, ErrorsNameTheirPlace) {
  const TempFolder folder;
  const auto said = [&](const std::string& text) {
    return folder.relative(message_of([&] { load_cluster(folder.write("c.yaml", text), "north"); }));
  };
  EXPECT_THAT(said("north:\n  partitoin: gpu\n"), HasSubstr("c.yaml:2:3: error: "));
  EXPECT_THAT(said("north:\n  partitoin: gpu\n"), HasSubstr("did you mean 'partition'"));
  EXPECT_THAT(said("north: {max_array: 0}\n"), HasSubstr("c.yaml:1:20: error: "));
  EXPECT_THAT(said("north: {time: soon}\n"), HasSubstr("is 'soon', expected minutes, H:MM:SS or D-HH:MM:SS"));
  EXPECT_THAT(said("north: {classes: {a: {memory: big}}}\n"), HasSubstr("is 'big', expected a size"));
  EXPECT_THAT(said("north: {classes: {a: {gres: gpu}}}\n"), HasSubstr("memory"));
  EXPECT_THAT(said("north: {lines: [\"a\\nb\"]}\n"), HasSubstr("line break"));
  EXPECT_THAT(said("nroth: {}\n"), HasSubstr("unknown cluster 'north' (did you mean 'nroth'?)"));
}

TEST(Clusters, TimesAreReadAsSbatchReadsThem) {  // sbatch(1), --time
  EXPECT_EQ(parse_slurm_time("90"), 90 * 60);
  EXPECT_EQ(parse_slurm_time("2:30"), 150);
  EXPECT_EQ(parse_slurm_time("24:00:00"), 24 * 3600);
  EXPECT_EQ(parse_slurm_time("3-12"), 84 * 3600);
  EXPECT_EQ(parse_slurm_time("3-12:30"), 84 * 3600 + 1800);
  EXPECT_EQ(parse_slurm_time("1-00:00:01"), 24 * 3600 + 1);
  for (const char* text : {"", "x", "1-", "-3", "1:2:3:4", "1 h", "99999999999999999999"})
    EXPECT_EQ(parse_slurm_time(text), 0) << text;
}

class ShardNumber : public testing::Test {
 protected:
  ShardNumber() { clear(); }
  ~ShardNumber() override { clear(); }
  static void clear() {
    for (const char* name : {"SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX", "PBS_ARRAY_INDEX", "HQ_TASK_ID",
                             "SGE_TASK_ID", "LSB_JOBINDEX", "KVC_SHARD_OFFSET"}) {
      ::unsetenv(name);
    }
  }
  static size_t by(const char* name, const char* value) {
    clear();
    ::setenv(name, value, 1);
    return shard_of("", 5);
  }
};

TEST_F(ShardNumber, CountsFromZeroOrOneAsTheEngineDoes) {
  for (const char* name : {"SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX", "PBS_ARRAY_INDEX", "HQ_TASK_ID"}) {
    EXPECT_EQ(by(name, "0"), 0u) << name;
    EXPECT_EQ(by(name, "4"), 4u) << name;
    EXPECT_THAT(message_of([&] { by(name, "5"); }), HasSubstr("which is shard 5, expected below 5"));
  }
  for (const char* name : {"SGE_TASK_ID", "LSB_JOBINDEX"}) {
    EXPECT_EQ(by(name, "1"), 0u) << name;
    EXPECT_EQ(by(name, "5"), 4u) << name;
    EXPECT_THAT(message_of([&] { by(name, "6"); }), HasSubstr("which is shard 5, expected below 5"));
  }
}

TEST_F(ShardNumber, OfALaterArrayIsMovedByItsOffset) {
  ::setenv("SLURM_ARRAY_TASK_ID", "1", 1);
  ::setenv("KVC_SHARD_OFFSET", "3", 1);
  EXPECT_EQ(shard_of("", 5), 4u);
  ::setenv("KVC_SHARD_OFFSET", "many", 1);
  EXPECT_THAT(message_of([&] { shard_of("", 5); }), HasSubstr("KVC_SHARD_OFFSET is 'many', expected a whole number"));
}

TEST_F(ShardNumber, OfAJobThatIsNoArrayIsAskedFor) {
  EXPECT_THAT(message_of([&] { shard_of("", 5); }), HasSubstr("expected --shard I/5"));
  EXPECT_THAT(message_of([&] { by("SGE_TASK_ID", "undefined"); }), HasSubstr("expected --shard I/5"));
  EXPECT_THAT(message_of([&] { by("LSB_JOBINDEX", "0"); }), HasSubstr("expected --shard I/5"));
}

TEST_F(ShardNumber, GivenIsHeldAgainstThePlan) {
  EXPECT_EQ(shard_of("4/5", 5), 4u);
  EXPECT_THAT(message_of([&] { shard_of("5/5", 5); }), HasSubstr("shards count from 0, expected 0/5 to 4/5"));
  EXPECT_THAT(message_of([&] { shard_of("0/6", 5); }), HasSubstr("the plan has 5 shards"));
  for (const char* text : {"1", "a/5", "-1/5", "1/", "/5", "1/5/5"}) {
    EXPECT_THAT(message_of([&] { shard_of(text, 5); }), HasSubstr("expected I/N")) << text;
  }
}

TEST(CopyWhole, LeavesTheOldFileWhereTheNewOneDoesNotFit) {
  const TempFolder folder;
  const auto to = folder.write("shared/shard.sqlite", "old");
  EXPECT_THAT(message_of([&] { copy_whole(folder / "none", to); }), HasSubstr("cannot copy a shard's results to"));
  EXPECT_EQ(read_file(to), "old");
  copy_whole(folder.write("new", std::string(200'000, 'n')), to);
  EXPECT_EQ(read_file(to), std::string(200'000, 'n'));
  size_t n_files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder / "shared")) n_files += file.is_regular_file();
  EXPECT_EQ(n_files, 1u);
}

TEST(ShardFiles, GoOnFromWhatWasBroughtAndLeaveNothingOnTheNode) {
  const TempFolder folder, node;
  ::setenv("SLURM_TMPDIR", node.string().c_str(), 1);
  const auto shared = folder / "new/shard.sqlite";
  {
    ShardFile file(shared);
    file.store().database().execute("CREATE TABLE mark (x); INSERT INTO mark VALUES (41)");
    file.bring();
    file.store().database().execute("UPDATE mark SET x = 42");
    EXPECT_FALSE(std::filesystem::is_empty(node.path()));
  }
  {
    ShardFile file(shared);
    EXPECT_EQ(file.store().database().integer("SELECT x FROM mark"), 41);
    file.store().database().execute("UPDATE mark SET x = 43");
    file.bring();
  }
  EXPECT_TRUE(std::filesystem::is_empty(node.path()));
  auto brought = Database::open(shared, Database::Mode::kReadOnly, 0);
  EXPECT_EQ(brought.integer("SELECT x FROM mark"), 43);
  ::unsetenv("SLURM_TMPDIR");
}

}  // namespace
}  // namespace kvc
