// "did you mean": the known name closest to a mistyped one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvc {

// The candidate with the smallest edit distance to `name`, or "" when none is closer than half of its length.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

// Whether `wanted` names it: the whole name, what it begins with up to a slash, or a pattern as a shell's (* ? [abc]; *
// goes over slashes).
bool is_named_by(const std::string& name, const std::string& wanted);

// "a, b, c"
std::string join(const std::vector<std::string>& names, std::string_view separator = ", ");

// The few that are nearest to `name`, or that have a part between slashes that is; the nearest first.
std::vector<std::string> nearest_names(std::string_view name, const std::vector<std::string>& candidates);

// All of them, joined; of more than `most` the first few and how many more there are.
std::string some_of(const std::vector<std::string>& names, size_t most = 30);

// "unknown option 'bit' (did you mean 'bits'?); known: bits, group_size"; of very many the nearest are
// told and how many there are.
std::string unknown_name(std::string_view what, std::string_view name, const std::vector<std::string>& known);

}  // namespace kvc
