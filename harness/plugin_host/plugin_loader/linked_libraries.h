// What computes with a plugin: the shared libraries that it links, for the key of its cells.
#pragma once

#include <string>

namespace kvc {

// Of the shared library in whose memory `inside` lies, as it is loaded: "libkvc.so <SHA-256>, libmine.so <SHA-256>", by
// name. kvc's own libraries, and what else it links, libraries of libraries too, that the program does not. Without those
// of Python packages: LibTorch's version is in the build id.
std::string linked_libraries(const void* inside);

}  // namespace kvc
