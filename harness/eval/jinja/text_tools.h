// What Python's str does to texts, in UTF-8 and code points.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jinja/budget.h"

namespace kvc::jinja {

enum class Side { left, right, both };

// Without the code points of `chars` at its ends; without whitespace where there are none.
std::string_view trimmed(std::string_view text, const std::string* chars, Side side);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string case_folded(std::string_view text);
std::string capitalized(std::string_view text);
std::string titled(std::string_view text);  // str.title: words are runs of letters with case

// At most `most` cuts, -1: all. Without a separator at runs of whitespace. from_right: the last cuts.
std::vector<std::string_view> split(std::string_view text, const std::string* separator, int64_t most, bool from_right);
std::vector<std::string_view> split_lines(std::string_view text);

// All but `most` of them, -1: all, from the left.
std::string replaced(Run& run, std::string_view text, std::string_view old, std::string_view by, int64_t most);

// In bytes, from `begin` on; npos if it does not occur. Linear in the text.
size_t find_text(std::string_view text, std::string_view wanted, size_t begin = 0);
size_t find_last(std::string_view text, std::string_view wanted);

// str.isdigit and the like by name; throws Error for another.
bool has_property(std::string_view text, const std::string& name);

// &, <, >, ' and " as HTML has them.
std::string escape_html(Run& run, std::string_view text);

}  // namespace kvc::jinja
