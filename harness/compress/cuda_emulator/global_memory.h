#pragma once
// Global memory while a kernel runs: which thread of which block touched a word last.

#include <cstddef>

namespace kvc::cuda_emulated {

void open_global();   // a launch begins
void close_global();  // a block ends: throws Failure for a race that is seen only now
void forget_global(const void* address, std::size_t bytes);  // an atomic operation is no race

}  // namespace kvc::cuda_emulated
