// Standard output as a file that may be full, closed or a pipe that nothing reads any more.
#pragma once

namespace kvc {

// First of all: descriptors 0 to 2 that are closed are opened, so that no file or database becomes one of them. What is
// printed into such a one fails.
void open_standard_descriptors();

// Whether something that was printed is lost. For verbs that print for long.
bool is_output_lost();

// What is printed is written out. -> `code`; where that is 0 and something is lost, which is told in one
// line, 3, and silently 141 of a pipe that nothing reads any more, as where SIGPIPE ends a program.
int end_standard_output(int code);

}  // namespace kvc
