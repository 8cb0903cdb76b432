// The n-th write, sync, open, allocation, ... of a command fails: it says so in one line or goes on, and loses nothing.
#include <gtest/gtest.h>

#include <cstring>

#include "faults/work.h"

namespace kvc::test {
namespace {

int64_t n_calls(const std::filesystem::path& counter) {
  const auto bytes = read_file(counter);
  int64_t n = 0;
  std::memcpy(&n, bytes.data(), std::min(bytes.size(), sizeof n));
  return n;
}

struct Fault {
  std::string work, kind;
};
void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.work << " with failing " << fault.kind; }
std::string name_of(const testing::TestParamInfo<Fault>& info) { return info.param.work + "_" + info.param.kind; }

class Faults : public testing::TestWithParam<Fault> {
 protected:
  // -> how many calls of the kind the command made
  int64_t run_with(const Work& work, int64_t n, Finished& ended) {
    const auto counter = place().folder / "counter";
    std::filesystem::remove(counter);
    ended = Program(place().folder, work.arguments, "",
                    {"/usr/bin/env", "LD_PRELOAD=" KVC_BINARY_DIR "/tests/libkvc_fault.so",
                     concat("KVC_TEST_FAULT=", GetParam().kind, ":", n, ":", counter.string())})
                .wait();
    return n_calls(counter);
  }

  void expect_held(const Work& work, int64_t n, const Finished& ended, const std::set<std::string>& before) {
    EXPECT_EQ(unfit_end(ended), "") << "call " << n;
    const auto stored = place().finished();
    EXPECT_TRUE(std::ranges::includes(stored, before)) << "call " << n << " lost a stored row";
    if (ended.exit_code != 0) {
      const auto again = run_program(place().folder, work.arguments);
      EXPECT_EQ(again.exit_code, 0) << "after call " << n << ": " << again.err;
      EXPECT_TRUE(std::ranges::includes(place().finished(), stored)) << "after call " << n << " a row was lost";
    }
    EXPECT_EQ(place().left(work), place().undisturbed(work).left) << "call " << n << ": " << ended.err;
  }
};

TEST_P(Faults, AreOneLineAndLoseNothing) {
  const auto& work = place().work(GetParam().work);
  const bool is_memory = GetParam().kind == "memory";  // of half a million calls
  const int64_t n_most = is_memory ? 400 : 100'000;
  const int64_t n_tried = amount() == Amount::all ? n_most : amount() == Amount::slow ? 2 : 1;
  place().undisturbed(work);
  place().begin(work);
  Finished ended;
  const int64_t n_all = run_with(work, 0, ended);
  ASSERT_GT(n_all, 0);
  for (int64_t i = 0; i < std::min(n_tried, n_all); ++i) {
    const int64_t n = n_all <= n_tried ? i + 1 : 1 + (2 * i + 1) * n_all / (2 * n_tried);
    place().begin(work);
    const auto before = place().finished();
    run_with(work, n, ended);
    expect_held(work, n, ended, before);
  }
  RecordProperty("calls", std::to_string(n_all));
}

std::vector<Fault> faults() {
  if (amount() == Amount::few) {
    return {{"run", "write"}, {"run", "memory"}, {"run", "send"}, {"rescore", "write"}, {"export", "open"}};
  }
  std::vector<Fault> faults;
  for (const char* work : {"run", "fresh", "rescore", "import", "search", "report", "export", "table"}) {
    for (const char* kind : {"write", "sync", "open", "memory", "map", "read", "send", "receive", "start"}) {
      const std::string k = kind, w = work;
      const bool runs = w == "run" || w == "search" || w == "fresh";
      const bool stores = runs || w == "rescore" || w == "import";
      if ((k == "send" || k == "receive" || k == "start" || k == "map") && !runs) continue;
      if (k == "sync" && !stores) continue;
      if (k == "write" && w == "table") continue;
      faults.push_back({work, kind});
    }
  }
  return faults;
}
INSTANTIATE_TEST_SUITE_P(OfOneCall, Faults, testing::ValuesIn(faults()), name_of);

}  // namespace
}  // namespace kvc::test
