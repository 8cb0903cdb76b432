// What a person sees of a run: on a terminal, and in a log.
#include "run/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

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

TEST(Progress, ALogHasALineFromTimeToTimeAndOneAtTheEnd) {
  Screen screen(0);
  Progress progress(3, "runs", milliseconds(50));
  progress.reach(0, "loading");
  progress.advance("a");
  EXPECT_EQ(screen.written(), "");
  std::this_thread::sleep_for(milliseconds(60));
  progress.reach(1, "b");
  progress.reach(1, "b");
  EXPECT_EQ(screen.written(), "1/3 runs, 0 s so far, 0 s left, at b\n");
  progress.reach(3, "c");
  progress.reach(3, "c");
  EXPECT_EQ(screen.written(), "3/3 runs, 0 s so far, 0 s left, at c\n");
}

// A step that takes minutes: without an end of its own, and nothing to tell the time left from.
TEST(Progress, BeforeTheFirstStepEndsThereIsNoTimeLeft) {
  Screen screen(0);
  Progress progress(3, "runs", milliseconds(20));
  std::this_thread::sleep_for(milliseconds(30));
  progress.reach(0, "warming up");
  EXPECT_EQ(screen.written(), "0/3 runs, 0 s so far, at warming up\n");
}

TEST(Progress, ABarStaysOnOneLineOfTheTerminal) {
  Screen screen(60);
  {
    Progress progress(2);
    progress.reach(2, std::string(300, 'x'));
    const auto bar = screen.written();
    EXPECT_EQ(bar.find("\r[##############################] 2/2 samples, "), 0u) << bar;
    EXPECT_EQ(bar.size(), 1 + 59 + 3) << bar;  // carriage return, 59 columns, and what wipes the rest
  }
  EXPECT_EQ(screen.written(), "\r\033[K");
}

TEST(Progress, ABarIsDrawnAtMostTenTimesASecond) {
  Screen screen(100);
  Progress progress(100000);
  for (int i = 0; i < 1000; ++i) progress.advance("x");
  const auto bars = screen.written();
  EXPECT_LE(std::count(bars.begin(), bars.end(), '['), 4) << bars;
  std::this_thread::sleep_for(milliseconds(110));
  progress.reach(1000, "x");
  EXPECT_NE(screen.written().find("] 1000/100000 samples, "), std::string::npos);
}

}  // namespace
}  // namespace kvc
