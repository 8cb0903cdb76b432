// Runs the built program as a user would, in a folder of the test's own.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "text/files.h"

namespace kvc::test {

struct Finished {
  int exit_code = -1;  // -1: ended by a signal
  std::string out, err;
};

// A folder that goes when the test ends.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "kvc-test-XXXXXX").string();
    if (!::mkdtemp(name.data())) std::abort();
    path_ = name;
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

// Starts `kvc arguments...` in a process group of its own; kill() or wait() ends it. wrapper: a program and its
// arguments that kvc and its own are put behind.
class Program {
 public:
  Program(const TempFolder& folder, std::vector<std::string> arguments, const std::string& input = "",
          const std::vector<std::string>& wrapper = {})
      : folder_(folder) {
    folder.write("in", input);
    arguments.insert(arguments.begin(), std::string(KVC_BINARY_DIR) + "/bin/kvc");
    arguments.insert(arguments.begin(), wrapper.begin(), wrapper.end());
    std::vector<char*> argv;
    for (auto& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
    ::posix_spawn_file_actions_addopen(&actions, 0, (folder / "in").c_str(), O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions, 1, (folder / "out").c_str(), kFlags, 0600);
    ::posix_spawn_file_actions_addopen(&actions, 2, (folder / "err").c_str(), kFlags, 0600);
    ::setenv("KVC_ROOT", KVC_SOURCE_DIR, 1);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    if (::posix_spawn(&child_, argv[0], &actions, &attributes, argv.data(), environ) != 0) std::abort();
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
  }

  void kill_after(std::chrono::milliseconds time) {
    std::this_thread::sleep_for(time);
    ::kill(child_, SIGKILL);
  }

  // To the whole group, as a terminal sends Ctrl-C.
  void signal_group(int signal) { ::kill(-child_, signal); }

  Finished wait() {
    int status = 0;
    ::waitpid(child_, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(folder_ / "out"), read_file(folder_ / "err")};
  }

 private:
  const TempFolder& folder_;
  pid_t child_ = -1;
};

inline Finished run_program(const TempFolder& folder, std::vector<std::string> arguments,
                            const std::string& input = "") {
  return Program(folder, std::move(arguments), input).wait();
}

// An experiment on the embedded model, small enough for a test.
inline std::string small_experiment(const std::string& compressors, int limit = 3) {
  return "name: small\nmodel: models/demo\ntasks: [demo/truth, demo/lookup]\nlimit: " + std::to_string(limit) +
         "\nplugin_path: [" + KVC_BINARY_DIR + "/tests/plugins]\ncompressors:\n" + compressors;
}

}  // namespace kvc::test
