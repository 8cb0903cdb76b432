// Comma-separated values as RFC 4180 has them: fields may stand in quotes, and hold line feeds and doubled quotes
// there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvc {

struct CsvRow {
  int64_t line = 0;  // from 1, where the row begins
  std::vector<std::string> fields;
};

// Blank lines are no rows. Throws Error "file:line:column: error: ..."; `file` is the name in messages.
std::vector<CsvRow> parse_csv(const std::string& file, std::string_view text);

}  // namespace kvc
