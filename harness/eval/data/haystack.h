// Questions that are made, not read: a sentence to be found again at a stated depth of a text of a stated length.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/task_file.h"
#include "data/template.h"

namespace kvc {

struct Haystack {
  TaskFile filler;                          // sentences, one a line
  Template needle;                          // {key}: what is asked for; {subject}: a word drawn beside it
  std::vector<std::string> keys, subjects;  // to draw from; without keys a number of five digits is drawn
  std::vector<int64_t> lengths;             // words of the text, the needle's among them
  std::vector<int64_t> depths;              // percent of the filler's sentences before the needle
  int64_t repeats = 1;                      // of every length and depth
  bool in_rounds = false;                   // every length and depth once before any comes again
  uint64_t seed = 0;
};

Haystack read_haystack(const YamlValue& value);

// One object a question, for every length, in it every depth, in it every repeat, or in rounds: haystack, key, subject,
// length, depth. The same on every machine. Throws Error for a filler without sentences, or a length that the needle
// does not fit.
std::vector<nlohmann::json> make_haystacks(const Haystack& spec, const std::filesystem::path& data_dir);

}  // namespace kvc
