// Runs the built program as a user would, in a folder of the test's own.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "support/temp_folder.h"
#include "text/files.h"

namespace kvc::test {

// Whether the program runs under AddressSanitizer or ThreadSanitizer, as the tests then do.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

struct Finished {
  int exit_code = -1;  // -1: ended by a signal
  std::string out, err;
  int signal = 0;  // that ended it
};

// Starts `kvc arguments...` in a process group of its own; kill() or wait() ends it. wrapper: a program and its
// arguments that kvc and its own are put behind.
class Program {
 public:
  Program(const TempFolder& folder, std::vector<std::string> arguments, const std::string& input = "",
          const std::vector<std::string>& wrapper = {});

  pid_t pid() const { return child_; }
  void kill();
  // To the whole group, as a terminal sends Ctrl-C.
  void signal_group(int signal);
  Finished wait();

 private:
  const TempFolder& folder_;
  pid_t child_ = -1;
};

Finished run_program(const TempFolder& folder, std::vector<std::string> arguments, const std::string& input = "");

// That begin with "kvc: ", as all errors do.
int64_t n_lines_of_kvc(const std::string& err);

// An experiment on the embedded model, small enough for a test.
std::string small_experiment(const std::string& compressors, int limit = 3);

}  // namespace kvc::test
