// docs/experiments.md: every key of an experiment's file, from the declarations that the readers use.
#pragma once

#include <string>

namespace kvc {

std::string experiment_page();  // Markdown

}  // namespace kvc
