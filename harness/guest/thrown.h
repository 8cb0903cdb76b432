// What a plugin threw, whatever it is.
#pragma once

#include <exception>
#include <string>

namespace kvc {

// Inside a catch clause: the text of what is being handled, never empty.
inline std::string thrown() {
  try {
    throw;
  } catch (const std::exception& e) {
    return *e.what() ? e.what() : "an exception without a text was thrown";
  } catch (...) {
    return "something was thrown that is no std::exception";
  }
}

}  // namespace kvc
