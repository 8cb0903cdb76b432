// A regular expression as tokenizer.json writes them (Oniguruma's common subset), compiled by PCRE2.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/pcre.h"

namespace kvc {

struct Match {
  size_t begin = 0;  // byte offsets
  size_t end = 0;
};

class TokenizerRegex {
 public:
  // Throws Error naming `where`, the pattern and the offset where it does not compile.
  TokenizerRegex(std::string pattern, std::string where);

  // All matches from left to right, none of them overlapping. `text` is valid UTF-8.
  std::vector<Match> find_all(std::string_view text) const;

  // The pattern that matches exactly this text.
  static std::string escape(std::string_view text);

 private:
  std::string pattern_;
  std::string where_;
  Pcre code_;
};

}  // namespace kvc
