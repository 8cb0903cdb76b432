// Tasks as experiments and command lines name them.
#pragma once

#include <string>
#include <vector>

#include "experiment/paths.h"
#include "task/task_spec.h"

namespace kvc {

// A task by its name; all tasks of a suite, or all variants of a file, by what their names begin with; those that a
// pattern as 'demo/*' fits; a file by its path; what a .txt lists, a name a line. Throws Error with the nearest where
// there is none.
std::vector<TaskId> tasks_of(const std::string& name, const Paths& paths);

// The one task of that name or file; throws Error where there is none, or several.
TaskId task_by_name(const std::string& name, const Paths& paths);

// The data folder: the given one, or KVC_DATA, or "".
std::string data_folder(const std::string& given);

}  // namespace kvc
