#include "text/nearest.h"

#include <fnmatch.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "text/message.h"
#include "text/utf8.h"

namespace kvc {
namespace {

constexpr size_t kMostListed = 30;  // more names are no message
constexpr size_t kNearest = 5;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Another case is no other letter: who writes KIVI means kivi.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substituted = diagonal + (lower(a[i]) != lower(b[j]));
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, substituted});
    }
  }
  return row.back();
}

// To the name, or to one of the parts between its slashes, which then counts one more: "lambda" is near
// "lambada/openai".
size_t distance_by_parts(std::string_view name, std::string_view candidate) {
  size_t least = edit_distance(name, candidate);
  for (size_t start = 0, end = 0; end != std::string_view::npos; start = end + 1) {
    end = candidate.find('/', start);
    const auto part = candidate.substr(start, end == std::string_view::npos ? end : end - start);
    least = std::min(least, edit_distance(name, part) + 1);
  }
  return least;
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = name.size() / 2 + 1;
  for (const auto& candidate : candidates) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

bool is_named_by(const std::string& name, const std::string& wanted) {
  return (name + "/").starts_with(wanted + "/") || ::fnmatch(wanted.c_str(), name.c_str(), 0) == 0;
}

std::string join(const std::vector<std::string>& names, std::string_view separator) {
  std::string text;
  for (const auto& name : names) {
    if (!text.empty()) text += separator;
    text += name;
  }
  return text;
}

std::vector<std::string> nearest_names(std::string_view name, const std::vector<std::string>& candidates) {
  std::vector<std::pair<size_t, std::string>> by_distance;
  for (const auto& candidate : candidates) by_distance.emplace_back(distance_by_parts(name, candidate), candidate);
  std::stable_sort(by_distance.begin(), by_distance.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> nearest;
  for (const auto& [distance, candidate] : by_distance) {
    if (nearest.size() < kNearest) nearest.push_back(candidate);
  }
  return nearest;
}

std::string some_of(const std::vector<std::string>& names, size_t most) {
  if (names.size() <= most) return join(names);
  const size_t n = std::min(most, kNearest);
  return join({names.begin(), names.begin() + static_cast<std::ptrdiff_t>(n)}) + " and " +
         std::to_string(names.size() - n) + " more";
}

std::string unknown_name(std::string_view what, std::string_view name, const std::vector<std::string>& known) {
  std::string text = "unknown " + std::string(what) + " " + in_quotes(name);
  const auto nearest = nearest_name(name, known);
  if (!nearest.empty()) text += " (did you mean '" + nearest + "'?)";
  if (known.size() <= kMostListed) return in_one_line(text + "; known: " + join(known));
  return in_one_line(text + "; " + std::to_string(known.size()) +
                     " are known, the nearest: " + join(nearest_names(name, known)));
}

}  // namespace kvc
