// What counts as right for one question.
#pragma once

#include <string>
#include <vector>

namespace kvc {

struct Gold {
  std::vector<std::string> answers;  // the best of them counts
  std::vector<std::string> classes;  // the names that a classification chooses from, the options of a question
};

// As it is stored and shown: the answer itself, or {"answers": [...], "classes": [...]} of a structured one.
std::string gold_text(const Gold& gold, bool is_structured);
// The reverse; throws Error for text that is none.
Gold parse_gold(const std::string& text, bool is_structured);

}  // namespace kvc
