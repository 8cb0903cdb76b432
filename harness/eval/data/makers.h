// The kinds of questions that are made. Each reads its own keys of data.made.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "data/made.h"
#include "text/yaml_read.h"

namespace kvc {

// What of a task file all kinds share.
struct MakerSettings {
  uint64_t seed = 0;
  bool one_order = false;  // what is shuffled is shuffled alike in all questions
};

// A kind as it was read: opened once it is known where it is.
struct ReadMaker {
  std::function<std::unique_ptr<const QuestionMaker>(const MakerPlace&)> open;
  std::vector<TaskFile> files;
};

// Sentences with keys and values, hidden in lines, in sentences like them, or in a text.
ReadMaker read_needles(YamlMap& map, const MakerSettings& settings);
// Variables that are assigned one from the other, in lines of noise.
ReadMaker read_chains(YamlMap& map, const MakerSettings& settings);
// A numbered list of words, some more frequent than the others.
ReadMaker read_word_counts(YamlMap& map, const MakerSettings& settings);
// A text of coded words whose frequencies fall with a power of their rank.
ReadMaker read_coded_words(YamlMap& map, const MakerSettings& settings);
// Questions about documents, among other documents.
ReadMaker read_documents(YamlMap& map, const MakerSettings& settings);

// A way to write down step by step, in a graph that each place leaves by one line; its units are steps.
ReadMaker read_routes(YamlMap& map, const MakerSettings& settings);
// Numbers to combine to a target, and the search for it, line by line; its units are lines.
ReadMaker read_countdown(YamlMap& map, const MakerSettings& settings);
// Words in lines, to be written down again; its units are lines.
ReadMaker read_lists(YamlMap& map, const MakerSettings& settings);

}  // namespace kvc
