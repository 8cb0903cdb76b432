#include "fetch/fetch_progress.h"

#include <unistd.h>

#include <cstdio>

namespace kvc {
namespace {

constexpr std::chrono::seconds kLineInterval{30};
constexpr std::chrono::milliseconds kBarInterval{100};
constexpr int64_t kBarWidth = 30;

std::string time_left(double seconds) {
  const auto left = static_cast<int64_t>(seconds);
  if (left < 60) return std::to_string(left) + " s left";
  if (left < 3600) return std::to_string(left / 60) + " min left";
  return std::to_string(left / 3600) + " h " + std::to_string(left % 3600 / 60) + " min left";
}

}  // namespace

std::string megabytes(int64_t n_bytes) {
  char text[32];
  const bool is_large = n_bytes >= 1'000'000'000;
  std::snprintf(text, sizeof text, "%.1f %s", static_cast<double>(n_bytes) / (is_large ? 1e9 : 1e6),
                is_large ? "GB" : "MB");
  return text;
}

std::string fetch_state(int64_t have, int64_t total, int64_t fetched, double seconds) {
  auto text = megabytes(have) + " of " + megabytes(total);
  if (fetched <= 0 || seconds < 1 || have >= total) return text;
  return text + ", " + time_left(seconds / static_cast<double>(fetched) * static_cast<double>(total - have));
}

FetchProgress::FetchProgress(std::string what, int64_t n_total)
    : what_(std::move(what)),
      n_total_(n_total),
      terminal_(::isatty(STDERR_FILENO)),
      start_(Clock::now()),
      last_print_(start_) {}

FetchProgress::~FetchProgress() {
  if (terminal_) std::fputs("\r\033[K", stderr);
}

void FetchProgress::at(int64_t n_bytes) {
  if (n_first_ < 0) n_first_ = n_bytes;
  const auto now = Clock::now();
  if (terminal_ ? now - last_print_ < kBarInterval : now - last_print_ < kLineInterval) return;
  last_print_ = now;
  const auto seconds = std::chrono::duration<double>(now - start_).count();
  const auto state = fetch_state(n_bytes, n_total_, n_bytes - n_first_, seconds);
  if (!terminal_) {
    std::fprintf(stderr, "%s: %s\n", what_.c_str(), state.c_str());
    return;
  }
  std::string bar;
  for (int64_t i = 0; i < kBarWidth; ++i) bar += i * n_total_ < n_bytes * kBarWidth ? '#' : '.';
  std::fprintf(stderr, "\r[%s] %s  %s\033[K", bar.c_str(), state.c_str(), what_.c_str());
}

}  // namespace kvc
