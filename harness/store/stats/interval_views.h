// results/interval_views.sql, built into the program.
#pragma once

#include <string_view>

namespace kvc {

std::string_view interval_views();

}  // namespace kvc
