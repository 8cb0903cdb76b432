// What a user should know of input that was read otherwise than it is written.
#pragma once

#include <string>

namespace kvc {

// "kvc: note: LINE" on standard error, each line once a process.
void notice(const std::string& line);

}  // namespace kvc
