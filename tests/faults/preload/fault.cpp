// Put before a program by LD_PRELOAD: the n-th call of one kind fails, once, in whichever process of the family makes
// it. KVC_TEST_FAULT=kind:n:file; the file counts the family's calls, from each process's main() on (a number of 8
// bytes). The program's own malloc and open stand before any library's, so what fails here is what they call.
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#pragma GCC diagnostic ignored "-Wmissing-declarations"

namespace {

char kind[16] = "";
uint64_t nth = 0;
std::atomic<uint64_t>* n_calls = nullptr;
std::atomic<bool> counts = false;

long system_call(long number, long a, long b, long c, long d, long e, long f) {
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  long result;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  if (result < 0 && result > -4096) {
    errno = static_cast<int>(-result);
    return -1;
  }
  return result;
}

bool fails(const char* call, int error) {
  if (!counts || std::strcmp(call, kind) != 0) return false;
  if (n_calls->fetch_add(1) + 1 != nth) return false;
  errno = error;
  return true;
}

template <class Function>
Function* next(Function*& known, const char* name) {
  if (!known) known = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
  return known;
}

__attribute__((constructor)) void read_environment() {
  const char* asked = std::getenv("KVC_TEST_FAULT");
  char path[4096];
  unsigned long long n;
  if (!asked || std::sscanf(asked, "%15[^:]:%llu:%4095s", kind, &n, path) != 3) return;
  nth = n;
  const auto name = reinterpret_cast<long>(path);
  const long file = system_call(SYS_openat, AT_FDCWD, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600, 0, 0);
  system_call(SYS_ftruncate, file, sizeof(uint64_t), 0, 0, 0, 0);
  const long at = system_call(SYS_mmap, 0, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  system_call(SYS_close, file, 0, 0, 0, 0, 0);
  if (at != -1) n_calls = reinterpret_cast<std::atomic<uint64_t>*>(at);
}

int (*program_main)(int, char**, char**);
int counted_main(int argc, char** argv, char** environment) {
  counts = n_calls != nullptr;
  const int code = program_main(argc, argv, environment);
  counts = false;
  return code;
}

}  // namespace

// What each does is its manual's page.
#define KVC_NEXT(name) next(known_##name, #name)
#define KVC_FAILING(kind, error, result, type, name, parameters, ...) \
  static type(*known_##name) parameters;                              \
  extern "C" type name parameters {                                   \
    if (fails(kind, error)) return result;                            \
    return KVC_NEXT(name)(__VA_ARGS__);                               \
  }

KVC_FAILING("memory", ENOMEM, nullptr, void*, __libc_malloc, (size_t n), n)
KVC_FAILING("memory", ENOMEM, nullptr, void*, __libc_calloc, (size_t n, size_t size), n, size)
KVC_FAILING("memory", ENOMEM, nullptr, void*, __libc_realloc, (void* p, size_t n), p, n)
KVC_FAILING("memory", ENOMEM, nullptr, void*, __libc_memalign, (size_t alignment, size_t n), alignment, n)
KVC_FAILING("open", EMFILE, nullptr, FILE*, fopen, (const char* path, const char* mode), path, mode)
KVC_FAILING("write", ENOSPC, -1, ssize_t, write, (int fd, const void* from, size_t n), fd, from, n)
KVC_FAILING("write", ENOSPC, -1, ssize_t, writev, (int fd, const iovec* from, int n), fd, from, n)
KVC_FAILING("write", ENOSPC, -1, ssize_t, pwrite, (int fd, const void* from, size_t n, off_t at), fd, from, n, at)
KVC_FAILING("write", ENOSPC, -1, ssize_t, pwrite64, (int fd, const void* from, size_t n, off64_t at), fd, from, n, at)
KVC_FAILING("write", ENOSPC, -1, int, ftruncate, (int fd, off_t n), fd, n)
KVC_FAILING("write", ENOSPC, -1, int, ftruncate64, (int fd, off64_t n), fd, n)
KVC_FAILING("read", EIO, -1, ssize_t, read, (int fd, void* to, size_t n), fd, to, n)
KVC_FAILING("read", EIO, -1, ssize_t, pread, (int fd, void* to, size_t n, off_t at), fd, to, n, at)
KVC_FAILING("read", EIO, -1, ssize_t, pread64, (int fd, void* to, size_t n, off64_t at), fd, to, n, at)
KVC_FAILING("sync", EIO, -1, int, fsync, (int fd), fd)
KVC_FAILING("sync", EIO, -1, int, fdatasync, (int fd), fd)
KVC_FAILING("send", ENOBUFS, -1, ssize_t, send, (int fd, const void* from, size_t n, int flags), fd, from, n, flags)
KVC_FAILING("receive", EIO, -1, ssize_t, recv, (int fd, void* to, size_t n, int flags), fd, to, n, flags)
KVC_FAILING("start", EAGAIN, -1, pid_t, fork, ())
KVC_FAILING("start", EAGAIN, EAGAIN, int, posix_spawn,
            (pid_t * pid, const char* path, const posix_spawn_file_actions_t* actions,
             const posix_spawnattr_t* attributes, char* const argv[], char* const environment[]),
            pid, path, actions, attributes, argv, environment)

extern "C" long syscall(long number, ...) {
  va_list rest;
  va_start(rest, number);
  long a[6];
  for (long& argument : a) argument = va_arg(rest, long);
  va_end(rest);
  const bool opens = number == SYS_openat || number == SYS_pipe2 || number == SYS_socketpair ||
                     number == SYS_memfd_create || number == SYS_socket;
  if (opens && fails("open", EMFILE)) return -1;
  if (number == SYS_mmap && fails("map", ENOMEM)) return -1;
  return system_call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

using StartMain = int(int (*)(int, char**, char**), int, char**, void (*)(), void (*)(), void (*)(), void*);
static StartMain* known___libc_start_main;
extern "C" int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*init)(),
                                 void (*fini)(), void (*rtld_fini)(), void* stack_end) {
  program_main = main;
  return KVC_NEXT(__libc_start_main)(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}
