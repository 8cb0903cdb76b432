// What a shell needs to complete a program's words, made from its declarations.
#pragma once

#include <string>
#include <vector>

#include "command_line/command_line.h"

namespace kvc {

std::vector<std::string> completion_shells();

// A script that the shell reads: verbs, options, the values of those with fixed choices, and files for all others.
std::string completion_script(const std::string& shell, const DeclaredVerb& program);

}  // namespace kvc
