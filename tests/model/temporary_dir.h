// A folder that goes when the test ends, and what the tests of broken files share.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>

#include "kvc/check.h"

namespace kvc_test {

class TemporaryDir {
 public:
  TemporaryDir() {
    static std::atomic<int> n{0};
    path_ = std::filesystem::temp_directory_path() / kvc::concat("kvc_test_", getpid(), "_", n++);
    std::filesystem::create_directory(path_);
  }
  TemporaryDir(const TemporaryDir&) = delete;
  ~TemporaryDir() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// The text of the Error that `body` throws; "" and a failure where it throws none.
template <class Body>
std::string message_of(const Body& body) {
  try {
    body();
  } catch (const kvc::Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return "";
}

}  // namespace kvc_test
