#include "wire/interrupt.h"

namespace kvc {
namespace {

volatile sig_atomic_t caught = 0;  // a handler reaches nothing but the process's own memory

void remember(int signal) { caught = signal; }

}  // namespace

Interrupt::Interrupt() {
  caught = 0;
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // without SA_RESTART: waiting calls return
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &int_before_);
  ::sigaction(SIGTERM, &action, &term_before_);
}

Interrupt::~Interrupt() {
  ::sigaction(SIGINT, &int_before_, nullptr);
  ::sigaction(SIGTERM, &term_before_, nullptr);
}

int Interrupt::signal() { return caught; }

}  // namespace kvc
