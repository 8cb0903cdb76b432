// The model's tables stand in the package as Python dictionaries, P={'B': -0.26, ...}: JSON but for the quotes.
#include <algorithm>

#include "kvc/check.h"
#include "scoring/chinese_words.h"
#include "text/json.h"
#include "text/text_file.h"
#include "text/utf8.h"

namespace kvc {
namespace {

using nlohmann::json;

// Calls read(table) on the dictionary of the file.
template <class Read>
void read_table(const std::filesystem::path& file, const Read& read) {
  auto text = read_text(file);
  try {
    const size_t begin = text.find("P=");
    KVC_CHECK(begin != std::string::npos, "expected P={...}");
    std::replace(text.begin(), text.end(), '\'', '"');
    read(json::parse(text.substr(begin + 2)));
  } catch (const std::exception& error) {
    throw Error(concat("'", file.string(), "': ", error.what()));
  }
}

WordModel::State state(const std::string& letter) {
  const size_t index = std::string_view("BEMS").find(letter);  // in the order of WordModel::State
  KVC_CHECK(letter.size() == 1 && index < WordModel::kNStates, "state ", in_quotes(letter), ", expected B, E, M or S");
  return static_cast<WordModel::State>(index);
}

}  // namespace

WordModel WordModel::load(const std::filesystem::path& folder) {
  WordModel model;
  Row never;
  never.fill(kNever);
  model.start = never;
  model.transition.fill(never);
  model.emission.assign(kLast - kFirst + 1, never);
  read_table(folder / "prob_start.py", [&](const json& table) {
    for (const auto& [letter, value] : table.items()) model.start[state(letter)] = value;
  });
  read_table(folder / "prob_trans.py", [&](const json& table) {
    for (const auto& [from, row] : table.items()) {
      for (const auto& [to, value] : row.items()) model.transition[state(from)][state(to)] = value;
    }
  });
  read_table(folder / "prob_emit.py", [&](const json& table) {
    for (const auto& [letter, row] : table.items()) {
      const auto y = state(letter);
      for (const auto& [character, value] : row.items()) {
        const auto points = to_code_points(character);
        KVC_CHECK(points.size() == 1, in_quotes(character), ", expected one character");
        const auto c = points[0];
        if (c >= kFirst && c <= kLast) model.emission[c - kFirst][y] = value;  // the model sees no others
      }
    }
  });
  return model;
}

}  // namespace kvc
