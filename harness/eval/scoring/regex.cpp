#include "scoring/regex.h"

#include "kvc/check.h"
#include "text/utf8.h"

namespace kvc {
namespace {

constexpr uint32_t kMatchLimit = 1'000'000;  // backtracking steps; the largest real extraction needs some thousands

Pcre compile(const std::string& pattern, bool any_bytes) try {
  return Pcre(pattern, {.any_bytes = any_bytes, .longer_after_empty = true, .match_limit = kMatchLimit});
} catch (const PcreError& error) {
  throw Error(concat("pattern ", in_quotes(pattern), " is wrong at offset ", error.at, ": ", error.reason));
}

}  // namespace

Regex::Regex(const std::string& pattern)
    : pattern_(pattern), code_(compile(pattern, false)), tolerant_(compile(pattern, true)) {}

std::optional<std::string> Regex::find(std::string_view text, int group, bool last) const {
  std::optional<std::string> found;
  each_match(text, group, [&](std::optional<std::string> match) {
    found = std::move(match);
    return last;
  });
  return found;
}

std::vector<std::string> Regex::find_all(std::string_view text, int group) const {
  std::vector<std::string> found;
  each_match(text, group, [&](std::optional<std::string> match) {
    found.push_back(match.value_or(""));
    return true;
  });
  return found;
}

std::string Regex::replace(std::string_view text, std::string_view by) const {
  std::string result;
  size_t at = 0;
  each_bounds(text, [&](const size_t* bounds) {
    result += text.substr(at, bounds[0] - at);
    for (size_t i = 0; i < by.size(); ++i) {
      if (by[i] != '$' || i + 1 == by.size()) {
        result += by[i];
        continue;
      }
      ++i;
      const auto group = static_cast<size_t>(by[i] - '0');
      if (by[i] == '$') {
        result += '$';
      } else if (bounds[2 * group] != Pcre::kUnset) {
        result += text.substr(bounds[2 * group], bounds[2 * group + 1] - bounds[2 * group]);
      }
    }
    at = bounds[1];
    return true;
  });
  return result.append(text.substr(at));
}

void Regex::each_match(std::string_view text, int group,
                       const std::function<bool(std::optional<std::string>)>& visit) const {
  each_bounds(text, [&](const size_t* bounds) {
    const size_t begin = bounds[2 * group], end = bounds[2 * group + 1];
    return visit(begin == Pcre::kUnset ? std::nullopt : std::optional(std::string(text.substr(begin, end - begin))));
  });
}

void Regex::each_bounds(std::string_view text, const std::function<bool(const size_t* bounds)>& visit) const try {
  (is_utf8(text) ? code_ : tolerant_).each_match(text, visit);
} catch (const PcreError& error) {
  throw Error(concat("pattern ", in_quotes(pattern_), ": ", error.reason));
}

}  // namespace kvc
