// Text as it may stand in other formats.
#pragma once

#include <string>
#include <string_view>

#include "render/escape.h"

namespace kvc {

// In HTML and XML, between tags or in quotes; U+FFFD for control characters that no character reference can name.
std::string escape_html(std::string_view text);
std::string escape_markdown(std::string_view text);  // in a cell of a table
std::string escape_csv(const std::string& text);     // RFC 4180: in quotes where it must be; no formula

}  // namespace kvc
