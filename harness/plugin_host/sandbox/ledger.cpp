// The functions of the second half replace the C library's of the same name in every library of the process, since the
// program's own symbols are found first (ledger.list exports them).
#include "sandbox/ledger.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KVC_LEDGER 0
#else
#define KVC_LEDGER 1
#endif

#if KVC_LEDGER
extern "C" {  // what glibc's functions of the plain names are aliases of
void* __libc_malloc(size_t);
void __libc_free(void*);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}
#endif

namespace kvc::ledger {
namespace {

struct Entry {
  const void* pointer;
  int64_t bytes;
  int account;
  size_t guarded_bytes;  // of the mapping around it, pages that guard it included; 0: it is glibc's
  Entry* next;
};

// Entries are few compared with all allocations of the process: most searches meet an empty bucket.
struct Bucket {
  std::atomic<Entry*> first;
  std::atomic<bool> locked;
};

struct Account {
  std::atomic<int64_t> live;
  std::atomic<bool> has_opened;
  char opened[128];  // written once, before has_opened is set
};

constinit std::array<Bucket, 1 << 14> buckets{};
constinit std::array<Account, kAccounts> accounts{};
constexpr int kMasters = 1024;       // threads with an OpenMP team; teams of later ones are not charged
constexpr int kMastersAccount = -2;  // of a member of a team that has opened none
struct Master {
  std::atomic<int> account;
  std::atomic<const void*> shown;
};
constinit std::array<Master, kMasters> masters{};
constinit std::atomic<int> n_masters = 0;
constinit thread_local int team = -1, master = -1;  // the team that it leads, the team that it is in; -1: none
constinit thread_local const void* shown = nullptr;
constinit thread_local int open_account = kNobody;
constinit thread_local int64_t small = 0;  // of an account, not counted yet
constinit thread_local int small_account = kNobody;
constexpr int64_t kMostUncounted = 4096;
constexpr size_t kLarge = 1024;  // bytes from which on an allocation is written down by itself
constinit std::atomic<int64_t> limit = std::numeric_limits<int64_t>::max();
constinit std::atomic<bool> guarded = false;

int account_now() {
  if (open_account != kMastersAccount) return open_account;
  return masters[static_cast<size_t>(master)].account.load(std::memory_order_relaxed);
}

void count_rest() {
  if (small == 0) return;
  accounts[static_cast<size_t>(small_account)].live += small;
  small = 0;
}

#if KVC_LEDGER

struct Range {
  uintptr_t begin, end;
};
constexpr size_t kMostRanges = 256;  // of all libraries' code
constinit std::array<Range, kMostRanges> driver_ranges{};
constinit std::atomic<size_t> n_driver_ranges = 0;
constinit std::atomic<uint64_t> n_libraries_seen = 0;  // loaded since the process began
constinit std::atomic<bool> spares_drivers = false;

bool is_drivers(const char* path) {
  const char* slash = std::strrchr(path, '/');
  const char* name = slash ? slash + 1 : path;
  for (const char* begin : {"libcuda", "libnv", "libcublas", "libcudnn", "libcufft", "libcupti", "libcurand",
                            "libcusolver", "libcusparse", "libnccl", "libc10_cuda"}) {
    if (std::strncmp(name, begin, std::strlen(begin)) == 0) return true;
  }
  return false;
}

void add_driver_range(uintptr_t begin, uintptr_t end) {
  const size_t n = n_driver_ranges;
  for (size_t i = 0; i < n; ++i) {
    if (driver_ranges[i].begin == begin) return;
  }
  if (n == kMostRanges) return;
  driver_ranges[n] = {begin, end};
  n_driver_ranges = n + 1;
}

// One at a time: dl_iterate_phdr holds the loader's lock.
int see_library(dl_phdr_info* library, size_t, void* is_first) {
  if (std::exchange(*static_cast<bool*>(is_first), false)) {
    if (n_libraries_seen.exchange(library->dlpi_adds) == library->dlpi_adds) return 1;  // none since
  }
  if (!library->dlpi_name || !is_drivers(library->dlpi_name)) return 0;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const auto& part = library->dlpi_phdr[i];
    const auto begin = library->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD && (part.p_flags & PF_X)) add_driver_range(begin, begin + part.p_memsz);
  }
  return 0;
}

void see_drivers() {
  bool is_first = true;
  ::dl_iterate_phdr(see_library, &is_first);
}

bool is_driver(const void* caller) {
  const auto at = reinterpret_cast<uintptr_t>(caller);
  for (size_t i = 0, n = n_driver_ranges; i < n; ++i) {
    if (at - driver_ranges[i].begin < driver_ranges[i].end - driver_ranges[i].begin) return true;
  }
  return false;
}

// For as long as it lives nobody's account is open, where the caller is a driver.
class OfCaller {
 public:
  explicit OfCaller(const void* caller) : is_spared_(open_account != kNobody && is_driver(caller)) {
    if (is_spared_) before_ = std::exchange(open_account, kNobody);
  }
  ~OfCaller() {
    if (is_spared_) open_account = before_;
  }
  OfCaller(const OfCaller&) = delete;
  OfCaller& operator=(const OfCaller&) = delete;

 private:
  bool is_spared_;
  int before_ = kNobody;
};
#define KVC_OF_CALLER const OfCaller of_caller(__builtin_return_address(0))

class Lock {
 public:
  explicit Lock(Bucket& bucket) : bucket_(bucket) {
    while (bucket_.locked.exchange(true, std::memory_order_acquire)) {
    }
  }
  ~Lock() { bucket_.locked.store(false, std::memory_order_release); }

 private:
  Bucket& bucket_;
};

Bucket& bucket_of(const void* pointer) {
  const auto at = reinterpret_cast<uintptr_t>(pointer);
  return buckets[(at >> 4 ^ at >> 20) % buckets.size()];
}

bool is_too_much(size_t bytes) {
  const int account = account_now();
  if (account == kNobody) return false;
  const int64_t live = accounts[static_cast<size_t>(account)].live;
  if (bytes <= static_cast<size_t>(limit) && live <= limit - static_cast<int64_t>(bytes)) return false;
  errno = ENOMEM;
  return true;
}

// Recorded one by one, so that it is released from its account whatever thread frees it. -> null: no memory for this
void* write_down(void* pointer, size_t bytes, int account, size_t guarded_bytes = 0) {
  auto* entry = static_cast<Entry*>(__libc_malloc(sizeof(Entry)));
  if (!entry) return nullptr;
  *entry = {pointer, static_cast<int64_t>(bytes), account, guarded_bytes, nullptr};
  accounts[static_cast<size_t>(account)].live += entry->bytes;
  auto& bucket = bucket_of(pointer);
  const Lock lock(bucket);
  entry->next = bucket.first;
  bucket.first = entry;
  return pointer;
}

struct Lost {
  size_t bytes = 0;
  int account = kNobody;  // where it was not written down
  size_t guarded_bytes = 0;
};

Lost cross_out(const void* pointer) {
  auto& bucket = bucket_of(pointer);
  if (!bucket.first.load(std::memory_order_relaxed)) return {};
  Entry* found = nullptr;
  {
    const Lock lock(bucket);
    Entry* before = nullptr;
    for (found = bucket.first; found && found->pointer != pointer; found = found->next) before = found;
    if (!found) return {};
    if (before) before->next = found->next;
    if (!before) bucket.first = found->next;
  }
  const Lost lost{static_cast<size_t>(found->bytes), found->account, found->guarded_bytes};
  accounts[static_cast<size_t>(found->account)].live -= found->bytes;
  __libc_free(found);
  return lost;
}

// Small allocations are many: counted on the account that is open when they are made and when they are freed.
void count_small(int64_t bytes, int account) {
  if (account != small_account) count_rest();
  small_account = account;
  small += bytes;
  if (small > kMostUncounted || small < -kMostUncounted) count_rest();
}

void* gain(void* pointer, size_t bytes) {
  const int account = account_now();
  if (account == kNobody || !pointer) return pointer;
  const size_t usable = ::malloc_usable_size(pointer);
  if (usable >= kLarge) {
    if (!write_down(pointer, bytes, account)) __libc_free(std::exchange(pointer, nullptr));
    return pointer;
  }
  count_small(static_cast<int64_t>(usable), account);
  return pointer;
}

Lost lose(void* pointer) {
  if (guarded) {
    if (const auto lost = cross_out(pointer); lost.account != kNobody) return lost;
  }
  const size_t usable = ::malloc_usable_size(pointer);
  if (usable >= kLarge) return cross_out(pointer);
  if (const int account = account_now(); account != kNobody) count_small(-static_cast<int64_t>(usable), account);
  return {};
}

constexpr size_t kPage = 4096;
constexpr unsigned char kUntouched = 0xa5;

void* guarded_memory(size_t alignment, size_t n) {
  const size_t pages = (n + alignment + kPage - 1) / kPage * kPage, whole = pages + 2 * kPage;
  auto* region = reinterpret_cast<char*>(
      ::syscall(SYS_mmap, nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (region == MAP_FAILED) return nullptr;
  std::memset(region + kPage, kUntouched, pages);
  ::mprotect(region, kPage, PROT_NONE);
  ::mprotect(region + kPage + pages, kPage, PROT_NONE);
  const auto end = reinterpret_cast<uintptr_t>(region + kPage + pages);
  auto* pointer = reinterpret_cast<void*>((end - n) / alignment * alignment);
  if (write_down(pointer, n, account_now(), whole)) return pointer;
  ::syscall(SYS_munmap, region, whole);
  return nullptr;
}

// What of it may be read.
size_t size_of(void* pointer) {
  if (guarded) {
    auto& bucket = bucket_of(pointer);
    const Lock lock(bucket);
    for (const Entry* entry = bucket.first; entry; entry = entry->next) {
      if (entry->pointer == pointer) return static_cast<size_t>(entry->bytes);
    }
  }
  return ::malloc_usable_size(pointer);
}

void give_back(void* pointer, const Lost& lost) {
  if (lost.guarded_bytes == 0) return __libc_free(pointer);
  auto* bytes = static_cast<unsigned char*>(pointer);
  auto* end = bytes + lost.bytes;
  while (reinterpret_cast<uintptr_t>(end) % kPage != 0) ++end;
  auto* begin = end + kPage - lost.guarded_bytes;
  bool touched = false;
  for (auto* p = begin + kPage; p < bytes; ++p) touched |= *p != kUntouched;
  for (auto* p = bytes + lost.bytes; p < end; ++p) touched |= *p != kUntouched;
  if (touched) {
    std::fprintf(stderr, "kvc: out-of-bounds write next to a tensor of %zu bytes\n", lost.bytes);
    std::abort();
  }
  ::syscall(SYS_munmap, begin, lost.guarded_bytes);
}

// Records what a plugin opens, except the system's own files.
void note(const char* call, const char* path = "") {
  const int now = account_now();
  if (now == kNobody || !path) return;
  for (const char* harmless : {"/proc/", "/sys/", "/dev/urandom", "/dev/random", "/dev/null", "/dev/nvidia"}) {
    if (std::strncmp(path, harmless, std::strlen(harmless)) == 0) return;
  }
  auto& account = accounts[static_cast<size_t>(now)];
  if (account.has_opened) return;
  std::snprintf(account.opened, sizeof account.opened, "%s(%s)", call, path);
  account.has_opened = true;
}

// The C library's function of that name.
template <class Function>
Function* behind(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

struct Start {
  void* (*run)(void*);
  void* argument;
  int account, master;
};

void* run_on_account(void* given) {
  const Start start = *static_cast<Start*>(given);
  __libc_free(given);
  open_account = start.account;
  master = start.master;
  void* result = start.run(start.argument);
  open(kNobody);
  return result;
}

// OpenMP's threads work for the thread that opens a parallel region, whatever account was open when they started.
bool is_openmp(const void* caller) {
  Dl_info info{};
  return ::dladdr(caller, &info) && info.dli_fname && std::strstr(info.dli_fname, "omp");
}

// This thread, as what its team refers to; -1 where there are too many.
int as_master() {
  if (team < 0 && n_masters < kMasters) {
    team = n_masters++;
    if (team >= kMasters) return team = -1;
    masters[static_cast<size_t>(team)].account = account_now();
    masters[static_cast<size_t>(team)].shown = shown;
  }
  return team;
}

#endif

}  // namespace

bool is_kept() { return KVC_LEDGER; }

int open(int account) {
  count_rest();
#if KVC_LEDGER
  if (spares_drivers && account != kNobody) see_drivers();
#endif
  const int before = open_account;
  const bool is_masters = account == kMastersAccount && master >= 0;
  open_account = is_masters || (account >= 0 && account < kAccounts) ? account : kNobody;
  if (team >= 0) masters[static_cast<size_t>(team)].account = account_now();
  return before;
}

void show_team(const void* what) {
  shown = what;
  if (team >= 0) masters[static_cast<size_t>(team)].shown = what;
}
const void* shown_by_master() { return master < 0 ? nullptr : masters[static_cast<size_t>(master)].shown.load(); }

void spare_drivers() {
#if KVC_LEDGER
  spares_drivers = true;
#endif
}

void set_limit(int64_t bytes) { limit = bytes; }
void set_guarded() { guarded = true; }
bool is_guarded() { return guarded; }

int64_t live_bytes(int account) {
  count_rest();
  return accounts.at(static_cast<size_t>(account)).live;
}

void forgive(int account) { accounts.at(static_cast<size_t>(account)).live = 0; }

std::string opened(int account) {
  const auto& a = accounts.at(static_cast<size_t>(account));
  return a.has_opened ? a.opened : "";
}

void forget_opened(int account) { accounts.at(static_cast<size_t>(account)).has_opened = false; }

}  // namespace kvc::ledger

#if KVC_LEDGER
// From here on in place of the C library's functions of the same names.
#pragma GCC visibility push(default)
#pragma GCC diagnostic ignored "-Wmissing-declarations"

using namespace kvc::ledger;

extern "C" {

void* malloc(size_t n) {
  KVC_OF_CALLER;
  return is_too_much(n) ? nullptr : gain(__libc_malloc(n), n);
}
void free(void* p) {
  KVC_OF_CALLER;
  if (p) give_back(p, lose(p));
}
void* calloc(size_t n, size_t size) {
  KVC_OF_CALLER;
  size_t bytes;
  if (__builtin_mul_overflow(n, size, &bytes)) bytes = SIZE_MAX;
  return is_too_much(bytes) ? nullptr : gain(__libc_calloc(n, size), bytes);
}
void* realloc(void* p, size_t n) {
  KVC_OF_CALLER;
  if (!p) return malloc(n);
  if (account_now() == kNobody && !guarded) {  // in place where it can be
    const auto lost = lose(p);
    void* moved = __libc_realloc(p, n);
    if (!moved && n > 0 && lost.account != kNobody) write_down(p, lost.bytes, lost.account);
    return moved;
  }
  if (n == 0) return free(p), nullptr;
  void* moved = malloc(n);
  if (!moved) return nullptr;
  std::memcpy(moved, p, std::min(n, size_of(p)));
  free(p);
  return moved;
}
void* reallocarray(void* p, size_t n, size_t size) {
  KVC_OF_CALLER;
  if (size_t bytes; !__builtin_mul_overflow(n, size, &bytes)) return realloc(p, bytes);
  errno = ENOMEM;
  return nullptr;
}
void* memalign(size_t alignment, size_t n) {
  KVC_OF_CALLER;
  if (is_too_much(n)) return nullptr;
  if (guarded && account_now() != kNobody && n > 0) return guarded_memory(alignment, n);
  return gain(__libc_memalign(alignment, n), n);
}
void* aligned_alloc(size_t alignment, size_t n) {
  KVC_OF_CALLER;
  return memalign(alignment, n);
}
void* valloc(size_t n) { return memalign(static_cast<size_t>(::sysconf(_SC_PAGESIZE)), n); }
void* pvalloc(size_t n) { return valloc(n); }
int posix_memalign(void** p, size_t alignment, size_t n) {
  KVC_OF_CALLER;
  if (alignment % sizeof(void*) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0) return EINVAL;
  void* gained = memalign(alignment, n);
  if (!gained) return ENOMEM;
  *p = gained;
  return 0;
}

void* mmap(void* at, size_t n, int protection, int flags, int fd, off_t offset) {
  KVC_OF_CALLER;
  if (is_too_much(n)) return MAP_FAILED;
  auto* p = reinterpret_cast<void*>(::syscall(SYS_mmap, at, n, protection, flags, fd, offset));
  const int account = account_now();
  if (p == MAP_FAILED || account == kNobody || write_down(p, n, account)) return p;
  ::syscall(SYS_munmap, p, n);
  return MAP_FAILED;
}
void* mmap64(void* at, size_t n, int protection, int flags, int fd, off_t offset) {
  return mmap(at, n, protection, flags, fd, offset);
}
int munmap(void* p, size_t n) {
  KVC_OF_CALLER;
  const int result = static_cast<int>(::syscall(SYS_munmap, p, n));
  if (result != 0) return result;
  const auto lost = cross_out(p);
  if (lost.bytes > n) write_down(static_cast<char*>(p) + n, lost.bytes - n, lost.account);  // its first pages alone
  return result;
}
void* mremap(void* p, size_t before, size_t n, int flags, ...) {
  KVC_OF_CALLER;
  va_list rest;
  va_start(rest, flags);
  auto* moved = reinterpret_cast<void*>(
      ::syscall(SYS_mremap, p, before, n, flags, flags & MREMAP_FIXED ? va_arg(rest, void*) : 0));
  va_end(rest);
  if (moved == MAP_FAILED) return moved;
  const auto lost = cross_out(p);
  if (lost.account != kNobody) write_down(moved, n, lost.account);
  return moved;
}
void* shmat(int id, const void* at, int flags) {
  KVC_OF_CALLER;
  note("shmat");
  return reinterpret_cast<void*>(::syscall(SYS_shmat, id, at, flags));
}

int openat(int folder, const char* path, int flags, ...) {
  KVC_OF_CALLER;
  va_list rest;
  va_start(rest, flags);
  const int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, int) : 0;
  va_end(rest);
  note("open", path);
  return static_cast<int>(::syscall(SYS_openat, folder, path, flags, mode));
}
int open(const char* path, int flags, ...) {
  KVC_OF_CALLER;
  va_list rest;
  va_start(rest, flags);
  const int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, int) : 0;
  va_end(rest);
  return openat(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  KVC_OF_CALLER;
  va_list rest;
  va_start(rest, flags);
  const int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, int) : 0;
  va_end(rest);
  return openat(AT_FDCWD, path, flags, mode);
}
int creat(const char* path, mode_t mode) {
  KVC_OF_CALLER;
  return openat(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
FILE* fopen(const char* path, const char* mode) {
  KVC_OF_CALLER;
  static const auto plain = behind<FILE*(const char*, const char*)>("fopen");
  note("fopen", path);
  return plain(path, mode);
}
FILE* fopen64(const char* path, const char* mode) {
  KVC_OF_CALLER;
  return fopen(path, mode);
}
FILE* tmpfile() {
  KVC_OF_CALLER;
  static const auto plain = behind<FILE*()>("tmpfile");
  note("tmpfile");
  return plain();
}
int mkstemp(char* path) {
  KVC_OF_CALLER;
  static const auto plain = behind<int(char*)>("mkstemp");
  note("mkstemp", path);
  return plain(path);
}
int shm_open(const char* name, int flags, mode_t mode) {
  KVC_OF_CALLER;
  static const auto plain = behind<int(const char*, int, mode_t)>("shm_open");
  note("shm_open", name);
  return plain(name, flags, mode);
}
int memfd_create(const char* name, unsigned flags) {
  KVC_OF_CALLER;
  note("memfd_create", name);
  return static_cast<int>(::syscall(SYS_memfd_create, name, flags));
}
int socket(int domain, int type, int protocol) {
  KVC_OF_CALLER;
  note("socket");
  return static_cast<int>(::syscall(SYS_socket, domain, type, protocol));
}
int socketpair(int domain, int type, int protocol, int ends[2]) {
  KVC_OF_CALLER;
  note("socketpair");
  return static_cast<int>(::syscall(SYS_socketpair, domain, type, protocol, ends));
}
int pipe2(int ends[2], int flags) {
  KVC_OF_CALLER;
  note("pipe");
  return static_cast<int>(::syscall(SYS_pipe2, ends, flags));
}
int pipe(int ends[2]) {
  KVC_OF_CALLER;
  return pipe2(ends, 0);
}
FILE* popen(const char* command, const char* mode) {
  KVC_OF_CALLER;
  static const auto plain = behind<FILE*(const char*, const char*)>("popen");
  note("popen", command);
  return plain(command, mode);
}
pid_t fork() {
  KVC_OF_CALLER;
  static const auto plain = behind<pid_t()>("fork");
  note("fork");
  return plain();
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  KVC_OF_CALLER;
  static const auto plain = behind<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
  const bool is_member = is_openmp(__builtin_return_address(0));
  const int leader = is_member ? as_master() : -1, account = leader >= 0 ? kMastersAccount : account_now();
  if (account == kNobody || (is_member && leader < 0)) return plain(thread, attributes, run, argument);
  auto* start = static_cast<Start*>(__libc_malloc(sizeof(Start)));
  if (!start) return EAGAIN;
  *start = {run, argument, account, leader};
  const int result = plain(thread, attributes, run_on_account, start);
  if (result != 0) __libc_free(start);
  return result;
}

}  // extern "C"
#endif
