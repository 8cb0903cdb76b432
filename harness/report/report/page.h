// The page's style sheet, script and queries (results/report), built into the program.
#pragma once

#include <string_view>

namespace kvc {

std::string_view report_css();
std::string_view report_js();
std::string_view times_sql();
std::string_view memory_sql();
std::string_view capacity_sql();

}  // namespace kvc
