// Runs that share a database: who is alive, and who computes what.
#include "store/run_store.h"

#include <sys/wait.h>
#include <unistd.h>

#include "store_fixture.h"

namespace kvc {
namespace {

using Claim = RunStore::Claim;

Claim one(const std::vector<Claim>& claims) { return claims.at(0); }

class Runs : public OpenStoreTest {
 protected:
  Runs() { store_.put_cell(make_cell("cell", "lossy", "task")); }
  Database& db() { return store_.database(); }
  int64_t count(const std::string& table) { return db().integer("SELECT count(*) FROM " + table); }
};

TEST_F(Runs, TwoThatLiveTakeDifferentSamplesAndLeaveNothingBehind) {
  {
    RunStore a(db(), "x"), b(db(), "x");
    EXPECT_EQ(one(a.claim({"cell"}, 0, false)), Claim::kMine);
    EXPECT_EQ(one(a.claim({"cell"}, 0, false)), Claim::kMine);  // again, where its worker died
    EXPECT_EQ(one(b.claim({"cell"}, 0, false)), Claim::kTaken);
    EXPECT_EQ(one(b.claim({"cell"}, 1, false)), Claim::kMine);
    store_.put_sample(make_sample("cell", 0));
    EXPECT_EQ(one(b.claim({"cell"}, 0, true)), Claim::kDone);
    EXPECT_EQ(count("claim"), 1);
    EXPECT_EQ(stored_runs(db()).size(), 2u);
  }
  EXPECT_EQ(count("run") + count("claim"), 0);
}

// It is not tried again by who waited for it; a new run does.
TEST_F(Runs, WhatAnotherHasJustFailedAtIsDoneForThoseWhoWaited) {
  RunStore a(db(), "x"), b(db(), "x");
  one(a.claim({"cell"}, 0, false));
  ASSERT_EQ(one(b.claim({"cell"}, 0, false)), Claim::kTaken);
  auto failed = make_sample("cell", 0);
  failed.status = "failed", failed.error = "why", failed.stop_reason = "", failed.scores = {};
  store_.put_sample(failed);
  EXPECT_EQ(one(b.claim({"cell"}, 0, true)), Claim::kDone);
  EXPECT_EQ(one(RunStore(db(), "x").claim({"cell"}, 0, false)), Claim::kMine);
}

// A process that took samples and was killed; its number may be another's by now.
TEST_F(Runs, ADeadOwnersClaimIsTakenOver) {
  for (const bool number_is_used_again : {false, true}) {
    RunStore waits(db(), "x");
    const pid_t child = ::fork();
    if (child == 0) {
      auto own = ResultStore::open(path_);
      RunStore dies(own.database(), "x");
      one(dies.claim({"cell"}, 0, false));
      ::kill(::getpid(), SIGKILL);
    }
    ::waitpid(child, nullptr, 0);
    if (number_is_used_again) {
      db().prepare("UPDATE run SET pid = ? WHERE pid = ?").bind(1, int64_t{::getpid()}).bind(2, int64_t{child}).run();
      db().execute("UPDATE run SET process_start = -1 WHERE id = (SELECT max(id) FROM run)");  // no process's
    }
    ASSERT_EQ(count("claim"), 1);
    EXPECT_EQ(one(waits.claim({"cell"}, 0, true)), Claim::kMine);
    EXPECT_FALSE(stored_runs(db()).back().is_alive);
    RunStore next(db(), "y");
    EXPECT_EQ(stored_runs(db()).size(), 2u) << "the dead one's row is gone";
  }
}

// Of another machine's process nobody here can ask: it lives as long as it tells of itself.
TEST_F(Runs, OfAnotherMachineTheLastWordCounts) {
  RunStore here(db(), "x");
  db().prepare("INSERT INTO run VALUES (100, 'x', 'elsewhere', 'p', 1, 1, 0, ?, 0, 0, 0, NULL, NULL, '')")
      .bind(1, seconds_since_1970() - 30)
      .run();
  db().execute("INSERT INTO claim VALUES ('cell', 0, 100)");
  EXPECT_EQ(one(here.claim({"cell"}, 0, false)), Claim::kTaken);
  db().prepare("UPDATE run SET seen_at = ? WHERE id = 100").bind(1, seconds_since_1970() - 300).run();
  EXPECT_EQ(one(here.claim({"cell"}, 0, false)), Claim::kMine);
}

TEST_F(Runs, ADatabaseOfAnEarlierProgramHasNone) {
  db().execute("DROP TABLE claim; DROP TABLE run");
  EXPECT_TRUE(stored_runs(db()).empty());
}

}  // namespace
}  // namespace kvc
