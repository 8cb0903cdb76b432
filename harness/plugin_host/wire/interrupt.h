// Ctrl-C as something a run can ask about.
#pragma once

#include <signal.h>

namespace kvc {

// While it lives SIGINT, SIGTERM and SIGUSR1, by which batch systems say that a limit is near, are remembered instead
// of ending the process; the second of a kind ends it. Of one inside another the outer one remembers, too.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  static int signal();  // that came; 0: none

 private:
  struct sigaction before_[3];
};

}  // namespace kvc
