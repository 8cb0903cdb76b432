#pragma once

#include <string>

#include "command_line/command_line.h"

namespace kvc {

// All verbs and what --help says of each, as a page of Markdown.
std::string verbs_page(const DeclaredVerb& program);

// The same for man, as roff.
std::string man_page(const DeclaredVerb& program);

}  // namespace kvc
