#include "run/progress.h"

#include <unistd.h>

#include <cstdio>

namespace kvc {
namespace {

constexpr std::chrono::seconds kLineInterval{30};
constexpr std::chrono::milliseconds kBarInterval{100};
constexpr int kBarWidth = 30;

}  // namespace

Progress::Progress(int64_t n_total)
    : n_total_(n_total), terminal_(::isatty(STDERR_FILENO)), start_(Clock::now()), last_print_(start_) {}

Progress::~Progress() { make_room(); }

void Progress::make_room() {
  if (terminal_) std::fputs("\r\033[K", stderr);
}

void Progress::advance(const std::string& now_at) {
  ++n_done_;
  const auto now = Clock::now();
  const bool last = n_done_ == n_total_;
  if (terminal_ && (last || now - last_print_ >= kBarInterval)) {
    std::string bar;
    for (int i = 0; i < kBarWidth; ++i) bar += i * n_total_ < n_done_ * kBarWidth ? '#' : '.';
    std::fprintf(stderr, "\r[%s] %lld/%lld %s  %s\033[K", bar.c_str(), static_cast<long long>(n_done_),
                 static_cast<long long>(n_total_), time_left().c_str(), now_at.c_str());
    last_print_ = now;
  } else if (!terminal_ && (last || now - last_print_ >= kLineInterval)) {
    std::fprintf(stderr, "%lld/%lld samples, %s, at %s\n", static_cast<long long>(n_done_),
                 static_cast<long long>(n_total_), time_left().c_str(), now_at.c_str());
    last_print_ = now;
  }
}

std::string Progress::time_left() const {
  const auto seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const auto left =
      static_cast<int64_t>(seconds / static_cast<double>(n_done_) * static_cast<double>(n_total_ - n_done_));
  if (left < 60) return std::to_string(left) + " s left";
  if (left < 3600) return std::to_string(left / 60) + " min left";
  return std::to_string(left / 3600) + " h " + std::to_string(left % 3600 / 60) + " min left";
}

}  // namespace kvc
