#include "wire/interrupt.h"

#include "wire/child_end.h"

namespace kvc {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGUSR1};

volatile sig_atomic_t caught = 0;  // a handler reaches nothing but the process's own memory
volatile sig_atomic_t came[NSIG] = {};
int n_alive = 0;

void remember(int signal) {
  if (came[signal]) end_by(signal);
  came[signal] = 1;
  caught = signal;
}

}  // namespace

Interrupt::Interrupt() {
  if (n_alive++ == 0) {
    caught = 0;
    for (const int signal : kSignals) came[signal] = 0;
  }
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = 0;  // without SA_RESTART: waiting calls return
  ::sigemptyset(&action.sa_mask);
  for (int i = 0; i < 3; ++i) ::sigaction(kSignals[i], &action, &before_[i]);
}

Interrupt::~Interrupt() {
  --n_alive;
  for (int i = 0; i < 3; ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
}

int Interrupt::signal() { return caught; }

}  // namespace kvc
