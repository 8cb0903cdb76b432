// A pattern of a task file as a value: bounded work, \d, \w and \s by Unicode as in Python's re, no match in bytes that
// are not UTF-8.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/pcre.h"

namespace kvc {

class Regex {
 public:
  // Throws Error naming the pattern, the offset and the reason.
  explicit Regex(const std::string& pattern);

  // The text of `group` in the first or last of the non-overlapping matches from left to right; nothing without a match
  // or when the group took no part. Throws Error when the match limit is reached.
  std::optional<std::string> find(std::string_view text, int group, bool last) const;
  // The group's text in each of them; "" where it took no part.
  std::vector<std::string> find_all(std::string_view text, int group) const;
  // With `by` in place of each of them; $1 in it is the first group's text, $$ a dollar.
  std::string replace(std::string_view text, std::string_view by) const;
  int n_groups() const { return code_.n_groups(); }
  const std::string& pattern() const { return pattern_; }

 private:
  // `visit` gets the group of each match in order, and returns whether to go on.
  void each_match(std::string_view text, int group,
                  const std::function<bool(std::optional<std::string> found)>& visit) const;
  void each_bounds(std::string_view text, const std::function<bool(const size_t* bounds)>& visit) const;
  std::string pattern_;
  Pcre code_;      // for well-formed UTF-8, which it does not look at again
  Pcre tolerant_;  // for anything else
};

}  // namespace kvc
