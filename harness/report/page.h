// The page's style sheet and script, built into the program.
#pragma once

#include <string_view>

namespace kvc {

std::string_view report_css();
std::string_view report_js();

}  // namespace kvc
