// One file fetched over HTTP: resumed where it broke off, and kept only if it is the file that was asked for.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

namespace kvc {

struct Download {
  std::string url;  // http or https
  std::filesystem::path to;
  int64_t n_bytes = 0;
  std::string sha256;
  int n_tries = 5;                        // connections in all; what the ones before have brought is kept
  std::chrono::milliseconds pause{1000};  // before the second, twice that before the third, ...
};

// What arrives is collected in "<to>.part", which outlives an error and is gone on with by the next call; `to` appears
// whole, by a rename. Throws Error naming the address and: what the server answered, why the connection broke, why the
// file cannot be written, or, of a file with another size or hash, both values; such a file is deleted.
void download(const Download& wanted);

}  // namespace kvc
