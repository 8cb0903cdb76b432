// Questions that are made, not read, around as many units (lines, words, documents, steps) as a length has room for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/task_file.h"

namespace kvc {

// Numbers of units that a question may be made of: first, first + by, first + 2 by, ... up to `most`.
struct Growth {
  int64_t first = 1, by = 1;
  int64_t back = 1;  // units that a question has less where the others' number is too many for it
  int64_t most = std::numeric_limits<int64_t>::max();
};

class QuestionMaker {
 public:
  virtual ~QuestionMaker() = default;
  // The fields of question `index`: the same for the same units and index everywhere, whatever other questions there
  // are.
  virtual nlohmann::json make(int64_t n_units, int64_t index) const = 0;
  virtual Growth growth() const = 0;
  virtual int64_t n_questions() const { return std::numeric_limits<int64_t>::max(); }
};

// What a maker may know of where it is.
struct MakerPlace {
  std::filesystem::path data_dir;
  int64_t prompt_tokens = 0;  // that a prompt may have; 0: its length is not in tokens
  std::function<int64_t(const std::string& text)> n_tokens = {};  // absent: nothing is made, only counted
};

struct MadeSpec {
  std::function<std::unique_ptr<const QuestionMaker>(const MakerPlace&)> open;
  std::vector<TaskFile> files;    // that it reads
  std::optional<int64_t> tokens;  // of a prompt, in its chat format, and its longest answer
  int64_t units = 0;              // where the length is not in tokens
  int64_t n_samples = 0;          // at most
  std::string recipe;             // what the task file says, as canonical JSON
  std::string where;
};

MadeSpec read_made_spec(const YamlValue& value);

// How many questions there are; reads what they are made of, makes none.
int64_t count_questions(const MadeSpec& spec, const std::filesystem::path& data_dir);

struct MadeQuestions {
  std::vector<nlohmann::json> items;
  int64_t n_all = 0;   // with those that were not asked for
  std::string sha256;  // of all that they are made of
};

// The first `n`, all of the same number of units: of a length in tokens, the most with which the first one's prompt,
// as `n_prompt_tokens` counts it, is no longer than place.prompt_tokens; one that is too long all the same has less.
// Throws Error where not even the fewest fit.
MadeQuestions make_questions(const MadeSpec& spec, const MakerPlace& place, int64_t n,
                             const std::function<int64_t(const nlohmann::json& question)>& n_prompt_tokens);

}  // namespace kvc
