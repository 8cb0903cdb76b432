#include "run/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "kvc/check.h"
#include "render/numbers.h"
#include "text/utf8.h"

namespace kvc {
namespace {

constexpr std::chrono::milliseconds kBarInterval{100};
constexpr int kBarWidth = 20;

// A longer line would wrap, and only its last row would be wiped.
size_t columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

double share_of(const ProgressState& state) {
  if (state.share >= 0) return std::min(1.0, state.share);
  return state.n_total > 0 ? static_cast<double>(state.n_done) / static_cast<double>(state.n_total) : 0;
}

// The first characters of a text, each taken for a column.
std::string cut_to(const std::string& text, size_t n_characters) {
  size_t end = 0;
  for (size_t n = 0; end < text.size(); ++end) {
    const bool begins = (static_cast<unsigned char>(text[end]) & 0xC0) != 0x80;
    if (begins && n++ == n_characters) break;
  }
  return text.substr(0, end);
}

}  // namespace

std::optional<double> left_of_estimate(double seconds, bool is_done, std::string& doing) {
  if (seconds > 0 || is_done) return std::max(0.0, seconds);
  doing += ", which takes longer than estimated";
  return std::nullopt;
}

std::optional<double> left_by_count(int64_t n_done, int64_t n_total, double seconds_so_far) {
  if (n_done == 0) return std::nullopt;  // nothing to tell the rest from
  return seconds_so_far / static_cast<double>(n_done) * static_cast<double>(n_total - n_done);
}

std::string progress_text(const ProgressState& state, double seconds_so_far) {
  auto text =
      concat(state.n_done, "/", state.n_total, " ", state.unit, ", ", duration_in_words(seconds_so_far), " so far");
  if (state.seconds_left) text += ", " + duration_in_words(*state.seconds_left) + " left";
  if (state.tokens_per_second > 0) {
    const auto rate = state.tokens_per_second;
    text += concat(", ", rate < 10 ? std::round(10 * rate) / 10 : std::round(rate), " tokens/s");
  }
  return state.doing.empty() ? text : text + ", at " + state.doing;
}

std::string progress_bar(const ProgressState& state, double seconds_so_far, size_t n_columns) {
  const double share = share_of(state);
  std::string line = "[";
  for (int i = 0; i < kBarWidth; ++i) line += i < share * kBarWidth ? '#' : '.';
  line += concat("] ", static_cast<int>(100 * share), " %, ", progress_text(state, seconds_so_far));
  return cut_to(line, n_columns - 1);
}

Progress::Progress(std::chrono::milliseconds line_interval)
    : line_interval_(line_interval),
      terminal_(::isatty(STDERR_FILENO)),
      start_(Clock::now()),
      last_print_(terminal_ ? start_ - kBarInterval : start_) {}

Progress::~Progress() { make_room(); }

void Progress::make_room() {
  if (terminal_) std::fputs("\r\033[K", stderr);
}

double Progress::seconds_so_far() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

void Progress::show(const ProgressState& state) {
  const bool is_last = state.n_done == state.n_total && state.n_done != n_shown_;
  n_shown_ = state.n_done;
  const auto now = Clock::now();
  if (!is_last && now - last_print_ < (terminal_ ? kBarInterval : line_interval_)) return;
  last_print_ = now;
  const auto line = terminal_ ? "\r" + progress_bar(state, seconds_so_far(), columns()) + "\033[K"
                              : progress_text(state, seconds_so_far()) + "\n";
  std::fputs(line.c_str(), stderr);
}

}  // namespace kvc
