#pragma once

#include <filesystem>

namespace kvc {

// A folder below the system's temporary one, made when it is first asked for and removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() = default;
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path();  // throws EnvironmentError

  // For a process that becomes another program: a child waits for its end, however it comes, and removes the folder.
  void remove_after_exec();

 private:
  std::filesystem::path path_;
};

}  // namespace kvc
