#pragma once

#include <string>

namespace kvc {

// What `kvc --version` prints, a "name: value" a line: the program's version and commit, the libraries and the compiler
// it was built with, and what this CPU lets its kernels use.
std::string version_text();

// `git describe` of the sources when the program was linked; "unknown" where git does not know them.
extern const char* const kCommit;

}  // namespace kvc
