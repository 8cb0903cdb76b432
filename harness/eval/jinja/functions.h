// The functions that templates of chats call.
#pragma once

#include "jinja/arguments.h"
#include "jinja/template.h"

namespace kvc::jinja {

Value range_function(Run& run, Arguments& given);
Value dict_function(Run& run, Arguments& given);
[[noreturn]] Value raise_function(Run& run, Arguments& given);

// The entries that dict(...) has: of a mapping or of pairs, and of the arguments with names.
std::vector<Dict::Entry> dict_entries(Run& run, Arguments& given);

// strftime(format) of the day's begin. Throws Error for what C's strftime knows not.
std::string format_day(Run& run, const Day& day, const std::string& format);

}  // namespace kvc::jinja
