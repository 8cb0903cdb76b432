#include "run/check_size.h"

#include <algorithm>
#include <cmath>

#include "kvc/check.h"

namespace kvc {
namespace {

constexpr double kSpread = 1.5;        // of the largest number of encoded values, by the smallest, that gives a line
constexpr double kLeastOfLine = 0.75;  // of what the samples say
constexpr double kLeastOfShare = 0.25;
constexpr double kFewValues = 0.5;  // of the samples' that a size has to have to be compared

}  // namespace

void check_size(const CacheSize& size, const std::vector<ResultStore::EncodedBytes>& samples) {
  const auto n_values = static_cast<double>(size.n_encoded_numbers.value_or(0));
  if (samples.empty() || n_values <= 0) return;
  double n = 0, x = 0, y = 0, xx = 0, xy = 0, least = samples.front().n_values, most = least;
  double least_share = samples.front().bytes / samples.front().n_values;
  for (const auto& sample : samples) {
    n += 1, x += sample.n_values, y += sample.bytes;
    xx += sample.n_values * sample.n_values, xy += sample.n_values * sample.bytes;
    least = std::min(least, sample.n_values), most = std::max(most, sample.n_values);
    least_share = std::min(least_share, sample.bytes / sample.n_values);
  }
  if (n_values < kFewValues * most) return;
  const double divisor = xx - x * x / n;
  const bool has_line = n >= 3 && most >= kSpread * least && divisor > 0;
  const double slope = has_line ? std::min((xy - x * y / n) / divisor, least_share) : least_share;
  const double expected = slope * n_values, share = has_line ? kLeastOfLine : kLeastOfShare;
  const auto bytes = static_cast<double>(size.kv_bytes.value_or(0) - size.recent_bytes.value_or(0));
  KVC_CHECK(bytes >= share * expected, "the caches of a made prompt hold ", std::llround(bytes), " bytes for ",
            *size.n_encoded_numbers, " encoded values, where those of samples carry on to ", std::llround(expected),
            ", expected at least ", share, " of that");
}

}  // namespace kvc
