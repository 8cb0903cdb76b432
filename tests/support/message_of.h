// What an action that should be refused says.
#pragma once

#include <functional>
#include <string>

#include "kvc/check.h"

namespace kvc::test {

// The text of the Error that `action` throws, or "no error".
inline std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace kvc::test
