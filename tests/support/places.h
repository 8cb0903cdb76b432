// Folders of the checkout.
#pragma once

#include <filesystem>

namespace kvc::test {

inline const std::filesystem::path kCheckout = KVC_SOURCE_DIR, kTasks = kCheckout / "tasks",
                                   kModelData = std::filesystem::path(KVC_TEST_DATA) / "model";

}  // namespace kvc::test
