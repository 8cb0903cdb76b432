#include "run/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "kvc/check.h"

namespace kvc {
namespace {

constexpr std::chrono::milliseconds kBarInterval{100};
constexpr int kBarWidth = 30;

std::string in_words(double seconds) {
  const auto whole = static_cast<int64_t>(seconds);
  if (whole < 60) return concat(whole, " s");
  if (whole < 3600) return concat(whole / 60, " min");
  return concat(whole / 3600, " h ", whole % 3600 / 60, " min");
}

// A longer line would wrap, and only its last row would be wiped.
size_t columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(int64_t n_total, std::string unit, std::chrono::milliseconds line_interval)
    : n_total_(n_total),
      unit_(std::move(unit)),
      line_interval_(line_interval),
      terminal_(::isatty(STDERR_FILENO)),
      start_(Clock::now()),
      last_print_(start_) {}

Progress::~Progress() { make_room(); }

void Progress::make_room() {
  if (terminal_) std::fputs("\r\033[K", stderr);
}

void Progress::reach(int64_t n_done, const std::string& now_at) {
  const bool is_last = n_done == n_total_ && n_done != n_done_;
  n_done_ = n_done;
  const auto now = Clock::now();
  if (!is_last && now - last_print_ < (terminal_ ? kBarInterval : line_interval_)) return;
  last_print_ = now;
  if (terminal_) return draw_bar(now_at);
  std::fprintf(stderr, "%s\n", concat(n_done_, "/", n_total_, " ", unit_, ", ", times(), ", at ", now_at).c_str());
}

void Progress::draw_bar(const std::string& now_at) const {
  std::string line = "[";
  for (int i = 0; i < kBarWidth; ++i) line += i * n_total_ < n_done_ * kBarWidth ? '#' : '.';
  line += concat("] ", n_done_, "/", n_total_, " ", unit_, ", ", times(), "  ", now_at);
  std::fprintf(stderr, "\r%s\033[K", line.substr(0, columns() - 1).c_str());
}

std::string Progress::times() const {
  const auto seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const auto so_far = in_words(seconds) + " so far";
  if (n_done_ == 0) return so_far;  // nothing to tell the rest from
  return so_far + ", " + in_words(seconds / static_cast<double>(n_done_) * static_cast<double>(n_total_ - n_done_)) +
         " left";
}

}  // namespace kvc
