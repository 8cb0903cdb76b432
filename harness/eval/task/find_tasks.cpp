// Which tasks there are.
#include <algorithm>

#include "task/task_spec.h"
#include "text/find_any.h"
#include "text/nearest.h"

namespace kvc {

std::vector<TaskId> find_tasks(const std::filesystem::path& dir) {
  std::vector<std::filesystem::path> files;
  KVC_CHECK(std::filesystem::is_directory(dir), "there is no task folder '", dir.string(), "'");
  for (const auto& suite : std::filesystem::directory_iterator(dir)) {
    if (!suite.is_directory()) continue;
    for (const auto& file : std::filesystem::directory_iterator(suite)) {
      if (file.is_regular_file() && file.path().extension() == ".yaml") files.push_back(file.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<TaskId> tasks;
  for (const auto& file : files) {
    for (const auto& variant : task_variants(file)) tasks.push_back({file, variant});
  }
  return tasks;
}

TaskId find_task(const std::filesystem::path& dir, const std::string& name) {
  std::vector<std::string> known;
  for (const auto& id : find_tasks(dir)) {
    known.push_back(id.name());
    if (known.back() == name) return id;
  }
  throw Error(unknown_name("task", name, known) + "; `kvc tasks` lists them");
}

std::optional<std::string> match_gold(const TaskSpec& spec, const std::string& text) {
  return spec.gold_pattern ? spec.gold_pattern->find(text, 1, false) : text;
}

std::string_view scored_text(const TaskSpec& spec, const Extractor& extractor, std::string_view generation) {
  return extractor.reads_stops ? generation : generation.substr(0, find_any(generation, spec.stop));
}

const Extractor* find_extractor(const TaskSpec& spec, const std::string& name) {
  for (const auto& extractor : spec.extractors) {
    if (extractor.name == name) return &extractor;
  }
  return nullptr;
}

}  // namespace kvc
