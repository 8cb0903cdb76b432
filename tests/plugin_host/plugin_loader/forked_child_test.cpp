// What strangers' code does in a forked child costs its parent a line.
#include "wire/forked_child.h"

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "kvc/check.h"
#include "support/message_of.h"

namespace kvc {
namespace {

using nlohmann::json;

void hang() { std::this_thread::sleep_for(std::chrono::hours(1)); }

// What becomes of one that does this.
std::string error_of(const std::function<void()>& act, double seconds = kSecondsToOpen) {
  const auto compute = [&](size_t) { return act(), json(); };
  return test::message_of([&] { in_child({"p.so"}, compute, seconds); });
}

TEST(ForkedChild, GivesWhatWasComputedToTheLastBit) {
  const json value = {{"third", 1.0 / 3}, {"long", int64_t{1} << 62}, {"text", "\n\x01"}, {"none", nullptr}};
  const auto values = in_child({"a", "b"}, [&](size_t i) { return i == 0 ? value : json(7); });
  EXPECT_EQ(values, (std::vector<json>{value, 7}));
}

TEST(ForkedChild, ThrowsWhatWasThrownThere) {
  EXPECT_EQ(error_of([] { throw Error("x.yaml:3: error: bits 5"); }), "x.yaml:3: error: bits 5");
  EXPECT_THROW(in_child({"a"}, [](size_t) -> json { throw EnvironmentError("disk full"); }), EnvironmentError);
  EXPECT_EQ(error_of([] { throw 42; }), "p.so: something was thrown that is no std::exception");
}

TEST(ForkedChild, SaysHowItEnded) {
  EXPECT_EQ(error_of([] { std::abort(); }), "p.so: crashed by signal 6 (Aborted) while it was opened");
  EXPECT_EQ(error_of([] { std::exit(0); }), "p.so: ended the process with exit code 0 while it was opened");
  EXPECT_EQ(error_of(hang, 0.5), "p.so: no answer after 0.5 s while it was opened");
}

TEST(ForkedChild, CannotBeMadeToWaitOrToBelieveByWhatItWrites) {
  EXPECT_EQ(error_of([] { std::ignore = ::write(3, "garbage\n", 8), hang(); }),
            "p.so: its answer is not valid while it was opened");
  const std::string forged = "{\"value\": 7, \"done\": true}\n";
  EXPECT_EQ(error_of([&] { std::ignore = ::write(3, forged.data(), forged.size()), hang(); }),
            "p.so: its answer is not valid while it was opened");
  const auto deep = "{\"value\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}\n";
  EXPECT_EQ(error_of([&] { std::ignore = ::write(3, deep.data(), deep.size()), hang(); }),
            "p.so: its answer is not valid while it was opened");
  EXPECT_EQ(error_of([] { ::close(3), hang(); }), "p.so: crashed by signal 9 (Killed) while it was opened");
  EXPECT_EQ(error_of([] {
              if (::fork() == 0) hang();  // with the pipe open
              ::_exit(3);
            }),
            "p.so: ended the process with exit code 3 while it was opened");
}

TEST(ForkedChild, ThatEndsCostsItsOwnAnswerAlone) {
  std::vector<std::string> answers;
  in_child(
      {"a", "b", "c", "d"},
      [](size_t i) {
        if (i == 1) std::abort();
        if (i == 2) throw Error("no");
        return json(i);
      },
      [&](size_t i, const ChildAnswer& answer) {
        EXPECT_EQ(i, answers.size());
        answers.push_back(answer.error.empty() ? answer.value.dump() : answer.error);
      });
  EXPECT_EQ(answers,
            (std::vector<std::string>{"0", "b: crashed by signal 6 (Aborted) while it was opened", "no", "3"}));
}

TEST(ForkedChild, HasNoneOfItsParentsFilesAndNothingToRead) {
  const int opened = ::open("/dev/null", O_RDONLY), fd = ::fcntl(opened, F_DUPFD, 10);
  const auto values = in_child({"a"}, [&](size_t) {
    char byte;
    return json{::fcntl(fd, F_GETFD), ::read(0, &byte, 1)};
  });
  EXPECT_EQ(values.front(), (json{-1, 0}));
  ::close(opened), ::close(fd);
}

TEST(ForkedChild, DoesNotWaitForThreadsThatStayedBehind) {
  at::set_num_threads(2);
  const auto sum = [] { return at::ones({1 << 20}).sum().item<double>(); };  // above the size that one thread adds
  EXPECT_EQ(sum(), 1 << 20);
  const auto values = in_child(
      {"a"}, [&](size_t) { return json(sum()); }, 10.0);
  EXPECT_EQ(values.front(), 1 << 20);
  at::set_num_threads(1);
}

}  // namespace
}  // namespace kvc
