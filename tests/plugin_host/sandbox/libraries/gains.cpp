// What a driver does in the time of whoever calls it: memory, a mapping, a file and a thread of its own.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

namespace {

void* kept[3];

void* in_thread(void*) {
  kept[2] = std::malloc(1 << 20);
  return nullptr;
}

}  // namespace

extern "C" void gain() {
  kept[0] = std::malloc(1 << 20);
  kept[1] = ::mmap(nullptr, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ::close(::open("/etc/hostname", O_RDONLY));
  pthread_t thread;
  if (::pthread_create(&thread, nullptr, in_thread, nullptr) == 0) ::pthread_join(thread, nullptr);
}

extern "C" void give_back() {
  std::free(kept[0]), std::free(kept[2]);
  ::munmap(kept[1], 1 << 20);
}
