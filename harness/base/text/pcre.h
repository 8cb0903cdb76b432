// PCRE2 in one place: a compiled pattern as a value, and its matches in a text. Patterns see characters, never their
// bytes; \d, \w and \s are Unicode's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

struct pcre2_real_code_8;

namespace kvc {

struct PcreError {
  size_t at = 0;  // byte of the pattern that is wrong, or of the text where matching ended
  std::string reason;
};

struct PcreOptions {
  bool any_bytes = false;           // for text that is not UTF-8: nothing matches its broken bytes
  bool longer_after_empty = false;  // an empty match is followed by a longer one at its place, as in Python's re
  uint32_t match_limit = 0;         // steps of backtracking; 0: PCRE2's own limit
  size_t stack = 0;                 // bytes for matches too deep for 32 KiB; 0: they are interpreted
};

class Pcre {
 public:
  static constexpr size_t kUnset = ~size_t{0};  // bounds of a group that took no part

  // Throws PcreError where the pattern does not compile.
  Pcre(const std::string& pattern, const PcreOptions& options);

  int n_groups() const;

  // From left to right the matches that do not overlap: visit gets where group i begins and ends, [2 i] and [2 i + 1]
  // (0: the match), and returns whether to go on. Throws PcreError. Without any_bytes `text` must be UTF-8.
  void each_match(std::string_view text, const std::function<bool(const size_t* bounds)>& visit) const;

 private:
  PcreOptions options_;
  std::shared_ptr<pcre2_real_code_8> code_;  // of all copies: matching does not write to it
};

}  // namespace kvc
