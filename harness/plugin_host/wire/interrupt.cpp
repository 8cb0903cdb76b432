#include "wire/interrupt.h"

namespace kvc {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGUSR1};

volatile sig_atomic_t caught = 0;  // a handler reaches nothing but the process's own memory
int n_alive = 0;

void remember(int signal) { caught = signal; }

}  // namespace

Interrupt::Interrupt() {
  if (n_alive++ == 0) caught = 0;
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // without SA_RESTART: waiting calls return
  ::sigemptyset(&action.sa_mask);
  for (int i = 0; i < 3; ++i) ::sigaction(kSignals[i], &action, &before_[i]);
}

Interrupt::~Interrupt() {
  --n_alive;
  for (int i = 0; i < 3; ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
}

int Interrupt::signal() { return caught; }

}  // namespace kvc
