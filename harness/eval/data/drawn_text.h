// Short texts that are drawn: numbers, letters, UUIDs, words.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "data/random.h"
#include "data/task_file.h"
#include "data/template.h"

namespace kvc {

class DrawnText {
 public:
  // uuids; {digits: n}; {letters: n}, capitals; {words: [{file, root}, ...], join: "-"}: a word of each file.
  static DrawnText read(const YamlValue& value);

  void load(const std::filesystem::path& data_dir);  // its files; before the first draw
  std::string draw(Random& random) const;
  // One that is in `used` not yet, where it then is. Throws Error where there seem to be no more.
  std::string draw_other(Random& random, std::set<std::string>& used) const;
  int64_t n_texts() const;  // how many there are, or 1,000,000,000 where there are more; of loaded files
  const std::vector<TaskFile>& files() const { return files_; }

 private:
  enum class Kind { kUuid, kDigits, kLetters, kWords };
  Kind kind_ = Kind::kUuid;
  int64_t n_ = 0;
  std::string join_, where_;
  std::vector<TaskFile> files_;
  std::vector<std::vector<std::string>> words_;  // of each file
};

// The words of files, one a line or several, each once, sorted. Throws Error for a file without any.
std::vector<std::string> read_words(const std::vector<TaskFile>& files, const std::filesystem::path& data_dir);

std::vector<TaskFile> read_task_files(const YamlValue& list);

// A template's text with a value for each variable. Throws Error for a variable that has none.
std::string fill_template(const Template& parts, const std::vector<std::pair<std::string, std::string>>& values);

// Throws the value's error where the text names a variable that is not known, or lacks one that is needed.
Template read_template_of(const YamlValue& value, const std::vector<std::string>& needed);

}  // namespace kvc
