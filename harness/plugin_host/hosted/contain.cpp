#include "hosted/contain.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>

namespace kvc {
namespace {

constinit uint32_t* refused_call = nullptr;

// Files that glibc itself reads when an arena shrinks and when processors are counted; it does without them.
bool is_read_by_glibc(const char* path) {
  constexpr std::array kFiles = {"/proc/sys/vm/overcommit_memory", "/sys/devices/system/cpu/online", "/proc/stat"};
  return path && std::ranges::any_of(kFiles, [&](const char* file) { return std::strcmp(path, file) == 0; });
}

// The call's number is told, and the process ends: what it asked for would have been answered with an error that code
// may ignore.
void on_refusal(int, siginfo_t* info, void* context) {
#ifdef __x86_64__
  auto* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  if (info->si_syscall == SYS_openat && (registers[REG_RDX] & O_ACCMODE) == O_RDONLY &&
      is_read_by_glibc(reinterpret_cast<const char*>(registers[REG_RSI]))) {
    registers[REG_RAX] = -EACCES;
    return;
  }
#endif
  *refused_call = static_cast<uint32_t>(info->si_syscall) + 1;
  ::_exit(1);
}

using Filter = std::unique_ptr<void, void (*)(scmp_filter_ctx)>;

void check(int error, const char* what) { KVC_CHECK(error == 0, "seccomp: ", what, ": ", std::strerror(-error)); }

void allow(const Filter& filter, std::initializer_list<int> calls) {
  for (const int call : calls) {
    if (call >= 0) check(::seccomp_rule_add_array(filter.get(), SCMP_ACT_ALLOW, call, 0, nullptr), "a rule");
  }
}

// Only with such an argument.
void allow(const Filter& filter, int call, const scmp_arg_cmp& argument) {
  if (call >= 0) check(::seccomp_rule_add_array(filter.get(), SCMP_ACT_ALLOW, call, 1, &argument), "a rule");
}

void allow_memory_and_threads(const Filter& filter) {
  allow(filter, {SCMP_SYS(mmap),
                 SCMP_SYS(munmap),
                 SCMP_SYS(mremap),
                 SCMP_SYS(mprotect),
                 SCMP_SYS(madvise),
                 SCMP_SYS(brk),
                 SCMP_SYS(futex),
                 SCMP_SYS(membarrier),
                 SCMP_SYS(rseq),
                 SCMP_SYS(set_robust_list),
                 SCMP_SYS(get_mempolicy),
                 SCMP_SYS(sigaltstack),
                 SCMP_SYS(rt_sigprocmask),
                 SCMP_SYS(rt_sigreturn),
                 SCMP_SYS(exit),
                 SCMP_SYS(exit_group),
                 SCMP_SYS(restart_syscall),
                 SCMP_SYS(sched_yield),
                 SCMP_SYS(sched_getaffinity),
                 SCMP_SYS(sched_getparam),
                 SCMP_SYS(sched_getscheduler),
                 SCMP_SYS(sched_get_priority_max),
                 SCMP_SYS(sched_get_priority_min),
                 SCMP_SYS(getcpu),
                 SCMP_SYS(arch_prctl)});
  // Threads, but no processes. glibc asks by clone3, whose flags no filter sees, and then by clone.
  allow(filter, SCMP_SYS(clone), SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
  check(::seccomp_rule_add_array(filter.get(), SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0, nullptr), "a rule");
  // Handlers are a compressor's own affair, but for the one that tells what was refused.
  allow(filter, SCMP_SYS(rt_sigaction), SCMP_A0(SCMP_CMP_NE, SIGSYS));
  allow(filter, SCMP_SYS(tgkill), SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(::getpid())));  // as abort() does
  allow(filter, SCMP_SYS(prctl), SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME));
  allow(filter, SCMP_SYS(prctl), SCMP_A0(SCMP_CMP_EQ, PR_SET_VMA));
}

void allow_questions(const Filter& filter) {
  allow(filter, {SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres), SCMP_SYS(clock_nanosleep),
                 SCMP_SYS(nanosleep),     SCMP_SYS(gettimeofday), SCMP_SYS(time),
                 SCMP_SYS(times),         SCMP_SYS(getrandom),    SCMP_SYS(getpid),
                 SCMP_SYS(getppid),       SCMP_SYS(gettid),       SCMP_SYS(getuid),
                 SCMP_SYS(geteuid),       SCMP_SYS(getgid),       SCMP_SYS(getegid),
                 SCMP_SYS(getrusage),     SCMP_SYS(getrlimit),    SCMP_SYS(sysinfo),
                 SCMP_SYS(uname),         SCMP_SYS(fstat),        SCMP_SYS(newfstatat),
                 SCMP_SYS(statx),         SCMP_SYS(stat),         SCMP_SYS(lstat),
                 SCMP_SYS(lseek),         SCMP_SYS(poll),         SCMP_SYS(ppoll),
                 SCMP_SYS(select),        SCMP_SYS(pselect6)});
  allow(filter, SCMP_SYS(prlimit64), SCMP_A2(SCMP_CMP_EQ, 0));  // to read limits, not to set them
  // What it prints.
  for (const auto call : {SCMP_SYS(write), SCMP_SYS(writev)}) allow(filter, call, SCMP_A0(SCMP_CMP_LE, 2));
  allow(filter, SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_EQ, 0x5401));  // TCGETS: is it a terminal?
}

void allow_reading_files(const Filter& filter) {
  constexpr uint64_t kWrites = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND | (O_TMPFILE & ~O_DIRECTORY);
  allow(filter, SCMP_SYS(open), SCMP_A1(SCMP_CMP_MASKED_EQ, kWrites, 0));
  allow(filter, SCMP_SYS(openat), SCMP_A2(SCMP_CMP_MASKED_EQ, kWrites, 0));
  allow(filter,
        {SCMP_SYS(read), SCMP_SYS(readv), SCMP_SYS(pread64), SCMP_SYS(close), SCMP_SYS(access), SCMP_SYS(faccessat),
         SCMP_SYS(faccessat2), SCMP_SYS(readlink), SCMP_SYS(readlinkat), SCMP_SYS(getdents64), SCMP_SYS(getcwd),
         SCMP_SYS(mincore), SCMP_SYS(fadvise64), SCMP_SYS(flock), SCMP_SYS(statfs), SCMP_SYS(fstatfs)});
  for (const int what : {F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC}) {
    allow(filter, SCMP_SYS(fcntl), SCMP_A1(SCMP_CMP_EQ, static_cast<scmp_datum_t>(what)));
  }
  allow(filter, SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_EQ, 0x5451));  // FIOCLEX: not for programs that it starts
}

// What libraries try when they are loaded, and do without.
void refuse_with_an_error(const Filter& filter) {
  for (const int call : {SCMP_SYS(epoll_create1), SCMP_SYS(epoll_create), SCMP_SYS(sched_setaffinity),
                         SCMP_SYS(setpriority), SCMP_SYS(mbind), SCMP_SYS(set_mempolicy)}) {
    if (call >= 0) check(::seccomp_rule_add_array(filter.get(), SCMP_ACT_ERRNO(EPERM), call, 0, nullptr), "a rule");
  }
}

// The process's calls in its own name: for the one before a stricter stage.
void allow_stricter_stage(const Filter& filter) {
  allow(filter, {SCMP_SYS(seccomp), SCMP_SYS(close_range)});
  allow(filter, SCMP_SYS(prctl), SCMP_A0(SCMP_CMP_EQ, PR_SET_NO_NEW_PRIVS));
}

int landlock_create(const landlock_ruleset_attr* attributes, size_t size, uint32_t flags) {
  return static_cast<int>(::syscall(SYS_landlock_create_ruleset, attributes, size, flags));
}

void allow_path(int ruleset, const std::string& path) {
  constexpr uint64_t kRead = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_EXECUTE;
  const int fd = ::open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) return;  // there is none
  landlock_path_beneath_attr beneath{kRead, fd};
  if (::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) != 0) {
    beneath.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE;  // of a file
    ::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0);
  }
  ::close(fd);
}

}  // namespace

bool allow_reading(const std::vector<std::string>& paths) {
  const int version = landlock_create(nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1) return false;
  landlock_ruleset_attr attributes{};
  attributes.handled_access_fs = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;  // all of version 1
  if (version >= 2) attributes.handled_access_fs |= LANDLOCK_ACCESS_FS_REFER;
  const int ruleset = landlock_create(&attributes, sizeof attributes, 0);
  if (ruleset < 0) return false;
  for (const auto& path : paths) allow_path(ruleset, path);
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  const bool restricted = ::syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
  ::close(ruleset);
  return restricted;
}

void contain(Stage stage, uint32_t* refused) {
  if (!refused_call) {  // later stages may not set the handler
    refused_call = refused;
    struct sigaction action {};
    action.sa_sigaction = &on_refusal;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGSYS, &action, nullptr);
  }
  const Filter filter(::seccomp_init(SCMP_ACT_TRAP), &::seccomp_release);
  KVC_CHECK(filter, "seccomp: no filter could be made");
  check(::seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_TSYNC, 1), "filters for all threads");
  allow_memory_and_threads(filter);
  allow_questions(filter);
  if (stage == Stage::loading) {
    allow_reading_files(filter);
    refuse_with_an_error(filter);
    allow_stricter_stage(filter);
  }
  check(::seccomp_load(filter.get()), "the filter");
}

std::string system_call_name(int number) {
  char* name = ::seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, number);
  const std::string text = name ? name : concat("system call ", number);
  std::free(name);
  return text;
}

void set_limits(int64_t memory_bytes) {
  const auto limit = [](auto which, uint64_t most) {
    rlimit now{};
    ::getrlimit(which, &now);
    if (now.rlim_cur > most) ::setrlimit(which, std::make_unique<rlimit>(rlimit{most, most}).get());
  };
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_NOFILE, 256);
  if (memory_bytes > 0) limit(RLIMIT_DATA, static_cast<uint64_t>(memory_bytes));
}

}  // namespace kvc

// For Python. -> why it failed; "": it did not
extern "C" KVC_EXPORT const char* kvc_contain(int stage, uint32_t* refused, const char* const* readable,
                                              int n_readable) {
  static std::string error;
  try {
    error.clear();
    if (n_readable > 0) kvc::allow_reading({readable, readable + n_readable});
    kvc::contain(static_cast<kvc::Stage>(stage), refused);
  } catch (const std::exception& e) {
    error = e.what();
  }
  return error.c_str();
}
