#pragma once

#include <string>

namespace kvc {

// The path of kvc's own shared library of that name, such as "libkvc_contain.so": they lie next to libkvc.so.
std::string kvc_library(const char* name);

}  // namespace kvc
