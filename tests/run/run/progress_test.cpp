// What a person sees of a run: on a terminal, and in a log.
#include "run/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "run/run_progress.h"

namespace kvc {
namespace {

using std::chrono::milliseconds;

// Stands for this process's stderr while it lives: a terminal of so many columns, or (0) a pipe.
class Screen {
 public:
  explicit Screen(unsigned short n_columns) : before_(::dup(STDERR_FILENO)) {
    int ends[2] = {-1, -1};
    if (n_columns == 0) {
      if (::pipe(ends) != 0) std::abort();
    } else {
      ends[0] = ::posix_openpt(O_RDWR | O_NOCTTY);
      if (ends[0] < 0 || ::grantpt(ends[0]) != 0 || ::unlockpt(ends[0]) != 0) std::abort();
      ends[1] = ::open(::ptsname(ends[0]), O_RDWR | O_NOCTTY);
      const winsize size{24, n_columns, 0, 0};
      ::ioctl(ends[1], TIOCSWINSZ, &size);
    }
    reads_ = ends[0];
    ::fcntl(reads_, F_SETFL, O_NONBLOCK);
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[1]);
  }
  ~Screen() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    ::close(reads_);
  }

  // What was written since the last call.
  std::string written() {
    std::string text(1 << 16, '\0');
    const auto n = ::read(reads_, text.data(), text.size());
    text.resize(n > 0 ? static_cast<size_t>(n) : 0);
    return text;
  }

 private:
  int before_, reads_ = -1;
};

ProgressState runs(int64_t n_done, int64_t n_total, const std::string& doing) {
  ProgressState state;
  state.n_done = n_done, state.n_total = n_total, state.unit = "runs", state.doing = doing;
  state.seconds_left = left_by_count(n_done, n_total, 0);
  return state;
}

TEST(Progress, ALogHasALineFromTimeToTimeAndOneAtTheEnd) {
  Screen screen(0);
  Progress progress(milliseconds(50));
  progress.show(runs(0, 3, "loading"));
  progress.show(runs(1, 3, "a"));
  EXPECT_EQ(screen.written(), "");
  std::this_thread::sleep_for(milliseconds(60));
  progress.show(runs(1, 3, "b"));
  progress.show(runs(1, 3, "b"));
  EXPECT_EQ(screen.written(), "1/3 runs, 0 s so far, 0 s left, at b\n");
  progress.show(runs(3, 3, "c"));
  progress.show(runs(3, 3, "c"));
  EXPECT_EQ(screen.written(), "3/3 runs, 0 s so far, 0 s left, at c\n");
}

// A step that takes minutes: without an end of its own, and nothing to tell the time left from.
TEST(Progress, BeforeTheFirstStepEndsThereIsNoTimeLeft) {
  EXPECT_EQ(progress_text(runs(0, 3, "warming up"), 125.4), "0/3 runs, 2 min 5 s so far, at warming up");
}

TEST(Progress, ALineSaysWhatIsKnown) {
  ProgressState state = runs(23, 96, "prefill 31 of 120");
  state.seconds_left = 4000, state.tokens_per_second = 182.4;
  EXPECT_EQ(progress_text(state, 3599),
            "23/96 runs, 59 min 59 s so far, 1 h 6 min left, 182 tokens/s, at prefill 31 of 120");
  state.tokens_per_second = 0.26;  // a large model: not 0
  EXPECT_NE(progress_text(state, 3599).find(", 0.3 tokens/s, "), std::string::npos);
  state.share = 0.5;
  EXPECT_EQ(progress_bar(state, 60, 45), "[##########..........] 50 %, 23/96 runs, 1 m");
}

TEST(Progress, ABarStaysOnOneLineOfTheTerminal) {
  Screen screen(60);
  {
    Progress progress;
    progress.show(runs(2, 2, std::string(300, 'x')));
    const auto bar = screen.written();
    EXPECT_EQ(bar.find("\r[####################] 100 %, 2/2 runs, "), 0u) << bar;
    EXPECT_EQ(bar.size(), 1 + 59 + 3) << bar;  // carriage return, 59 columns, and what wipes the rest
  }
  EXPECT_EQ(screen.written(), "\r\033[K");
}

// A name may have letters of several bytes: none of them is cut in two.
TEST(Progress, ABarIsCutBetweenCharacters) {
  EXPECT_EQ(progress_bar(runs(1, 2, "\xC3\xA9\xC3\xA9"), 0, 73).substr(22),
            " 50 %, 1/2 runs, 0 s so far, 0 s left, at \xC3\xA9\xC3\xA9");
  EXPECT_EQ(progress_bar(runs(1, 2, "\xC3\xA9\xC3\xA9"), 0, 66).substr(22),
            " 50 %, 1/2 runs, 0 s so far, 0 s left, at \xC3\xA9");
}

TEST(Progress, ABarIsDrawnAtMostTenTimesASecond) {
  Screen screen(100);
  Progress progress;
  for (int i = 0; i < 1000; ++i) progress.show(runs(i, 100000, "x"));
  const auto bars = screen.written();
  EXPECT_LE(std::count(bars.begin(), bars.end(), '['), 4) << bars;
  std::this_thread::sleep_for(milliseconds(110));
  progress.show(runs(1000, 100000, "x"));
  EXPECT_NE(screen.written().find("] 1 %, 1000/100000 runs, "), std::string::npos);
}

TEST(RunProgress, CountsAPromptOnceHoweverOftenAnotherRunIsAskedForIt) {
  Grid grid;
  grid.tasks.resize(1);
  grid.tasks[0].spec.name = "demo/truth";
  const Experiment experiment;
  RunProgress progress(grid, experiment);
  PendingJob mine{.task = 0, .sample = 0, .compressors = {0}}, of_another{.task = 0, .sample = 1, .compressors = {0}};
  progress.plan(mine);
  progress.plan(of_another);
  progress.unplan(of_another);
  of_another.was_taken = true;
  for (int i = 0; i < 5; ++i) {
    progress.plan(of_another);
    progress.unplan(of_another);
  }
  progress.ready();
  progress.given({.id = 1}, mine);
  EXPECT_EQ(progress.row().doing, "prompt 1 of 2, demo/truth");
}

}  // namespace
}  // namespace kvc
