// In a coverage build each process counts into a folder of its own, $KVC_COVERAGE_COUNTS/<pid>: who is killed while he
// writes spoils no one else's counts. And `_exit` is this: who ends by it still writes what it counted.
#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

extern "C" {
void __gcov_dump();
[[noreturn]] void __real__exit(int status);
[[noreturn]] void __wrap__exit(int status) {
  __gcov_dump();
  __real__exit(status);
}
}

namespace {

void take_folder() {
  const char* base = std::getenv("KVC_COVERAGE_COUNTS");
  if (base) ::setenv("GCOV_PREFIX", (base + ("/" + std::to_string(::getpid()))).c_str(), 1);
}

__attribute__((constructor)) void begin() {
  take_folder();
  ::pthread_atfork(nullptr, nullptr, take_folder);
}

}  // namespace
