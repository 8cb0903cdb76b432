// Pieces of a page.
#pragma once

#include <string>

#include "render/table.h"

namespace kvc {

// A table whose headings sort it, under its title and above its notes. A cell of column `link_column` (-1: none) that
// is a cell's key becomes a link to that cell's place on the page, "#cell-" and the key's first twelve digits.
std::string html_table(const Table& table, int link_column = -1);

// <section id=...> with a heading.
std::string section(const std::string& id, const std::string& heading, const std::string& body);

std::string cell_link(const std::string& cell_key);  // "#cell-0123456789ab"
std::string cell_anchor(const std::string& cell_key);

// JSON that may stand inside <script>: no "<", no control character of HTML's.
std::string script_json(const std::string& json);

}  // namespace kvc
