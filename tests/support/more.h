// How much tests of many combinations try: an even part of them, or with KVC_TEST_MORE in the environment all.
#pragma once

#include <cstddef>
#include <cstdlib>

namespace kvc::test {

inline bool asks_for_more() { return std::getenv("KVC_TEST_MORE") != nullptr; }

// Whether case `i` meets check `j`: the first case meets all, each other one every n-th, and n of them all together.
inline bool is_met(size_t i, size_t j, size_t n) { return i == 0 || (i + j) % n == 0 || asks_for_more(); }

}  // namespace kvc::test
