// The end of a program.
#pragma once

namespace kvc {

// Writes out what stdio holds. LibTorch's statics stay as they are: to destroy them takes a third of the processor time of
// a short verb.
[[noreturn]] void end_process(int code);

}  // namespace kvc
