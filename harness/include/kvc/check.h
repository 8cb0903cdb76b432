// Errors of kvc: one exception type, whose text names the field, the value and what is allowed. No LibTorch here.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

#define KVC_EXPORT __attribute__((visibility("default")))

namespace kvc {

// Thrown for invalid input and for violated contracts; crosses the boundary between host and plugin.
class KVC_EXPORT Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// An Error caused by the machine instead of the input: a full disk, a locked file.
class KVC_EXPORT EnvironmentError : public Error {
 public:
  using Error::Error;
};

// concat("bits ", 3, " not in ", "2, 4, 8") -> "bits 3 not in 2, 4, 8"
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

}  // namespace kvc

// KVC_CHECK(bits == 4, "kivi: bits ", bits, ", allowed: 2, 4, 8")
#define KVC_CHECK(condition, ...)                                     \
  do {                                                                \
    if (!(condition)) throw ::kvc::Error(::kvc::concat(__VA_ARGS__)); \
  } while (false)
