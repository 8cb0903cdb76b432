// Ctrl-C as something a run can ask about.
#pragma once

#include <signal.h>

namespace kvc {

// While it lives SIGINT and SIGTERM are remembered instead of ending the process; the second one ends it.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  static int signal();  // that came; 0: none

 private:
  struct sigaction int_before_ {
  }, term_before_{};
};

}  // namespace kvc
