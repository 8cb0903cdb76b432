// How the answers of a task that generates are found and scored, as its file says it.
#pragma once

#include "task/task_spec.h"

namespace kvc {

// metric, extractors and extract_cases: in the task file, or in one that several tasks name under `scoring`.
void read_scoring(YamlMap& task, TaskSpec& spec);

}  // namespace kvc
