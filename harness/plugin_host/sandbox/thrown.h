// What a plugin threw, whatever it is.
#pragma once

#include <exception>
#include <new>
#include <string>

namespace kvc {

// Inside a catch clause: the text of what is being handled, never empty; of a long one the beginning, without control
// characters.
inline std::string thrown() {
  constexpr size_t kLongest = 900;
  std::string text;
  try {
    throw;
  } catch (const std::bad_alloc&) {
    text = "out of memory";
  } catch (const std::exception& e) {
    text = *e.what() ? std::string(e.what()).substr(0, kLongest) : "an exception without a text was thrown";
    text = text.substr(0, text.find("\nException raised from"));  // LibTorch's list of its functions
  } catch (...) {
    text = "something was thrown that is no std::exception";
  }
  if (text.find("DefaultCPUAllocator: can't allocate memory") != std::string::npos) text = "out of memory";
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == 127) c = ' ';
  }
  return text;
}

}  // namespace kvc
