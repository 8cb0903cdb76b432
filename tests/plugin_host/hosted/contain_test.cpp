// What the kernel refuses a process that computes, each tried in a process of its own: containment is for good.
#include "hosted/contain.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

namespace kvc {
namespace {

// -> 0: it ended as it should; else 1 + the number of the call that it was ended for
uint32_t refused_while(const std::function<void()>& computing) {
  void* shared = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto& refused = *static_cast<uint32_t*>(shared);
  const pid_t child = ::fork();
  if (child == 0) {
    contain(Stage::computing, &refused);
    computing();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  const uint32_t number = refused;
  ::munmap(shared, 4096);
  EXPECT_EQ(status == 0, number == 0);
  return number;
}

// glibc reads a setting of the kernel the first time that a thread's arena shrinks.
void shrink_the_arena_of_a_thread() {
  std::thread([] {
    std::vector<void*> blocks(200);
    for (auto& block : blocks) block = std::malloc(64 << 10);
    for (auto* block : blocks) std::free(block);
  }).join();
}

TEST(Contained, ComputesWithThreadsThatGiveMemoryBack) { EXPECT_EQ(refused_while(shrink_the_arena_of_a_thread), 0u); }

TEST(Contained, MayCountTheProcessors) {
  EXPECT_EQ(refused_while([] {
              if (std::thread::hardware_concurrency() != static_cast<unsigned>(::sysconf(_SC_NPROCESSORS_ONLN)) ||
                  std::thread::hardware_concurrency() == 0) {
                std::abort();
              }
            }),
            0u);
}

TEST(Contained, IsEndedForAnythingElse) {
  const auto name_of_refused = [](const std::function<void()>& call) {
    return system_call_name(static_cast<int>(refused_while(call)) - 1);
  };
  EXPECT_EQ(name_of_refused([] { (void)::open("/etc/hostname", O_RDONLY); }), "openat");
  EXPECT_EQ(name_of_refused([] { (void)::open("/proc/self/maps", O_RDONLY); }), "openat");
  EXPECT_EQ(name_of_refused([] { (void)::open("/proc/stat", O_RDWR); }), "openat");
  EXPECT_EQ(name_of_refused([] { (void)::socket(AF_INET, SOCK_STREAM, 0); }), "socket");
  EXPECT_EQ(name_of_refused([] { (void)::memfd_create("more", 0); }), "memfd_create");
  EXPECT_EQ(name_of_refused([] { (void)::fork(); }), "clone");
}

}  // namespace
}  // namespace kvc
