// Per-account accounting of memory and handles acquired from the operating system: malloc and its relatives, mappings,
// what is opened. It includes tensors; MemoryMeter tells them apart.
#pragma once

#include <cstdint>
#include <string>

namespace kvc::ledger {

constexpr int kAccounts = 1 << 16;  // numbered from 0
constexpr int kNobody = -1;         // what it acquires is not recorded

// Whether this program records at all: unless a sanitizer replaces the allocator.
bool is_kept();

// From here on what this thread acquires is charged to the account, as is what threads acquire that it starts. Its
// OpenMP team is charged to the account that this thread has open then, except for members that have opened one of
// their own. -> the account that was open before
int open(int account);
// A pointer that the thread shows its OpenMP team, for as long as it lives; and what this thread's master shows, or null.
void show_team(const void* what);
const void* shown_by_master();

// The account is open for as long as it lives.
class Scope {
 public:
  explicit Scope(int account) : before_(open(account)) {}
  ~Scope() { open(before_); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  int before_;
};

// Bytes charged to the account and not freed. An allocation of 1,024 bytes or more counts as requested, until any thread
// frees it; a smaller one as the allocator rounds it, until it is freed while the account is open.
int64_t live_bytes(int account);
void forgive(int account);  // as if it had freed everything

// From here on an allocation that takes an account beyond that many bytes fails as if the system had no memory.
void set_limit(int64_t bytes);

// From here on each aligned allocation charged to an account, such as a tensor, lies between guard pages, in padding that
// is checked when it is freed: an access far out of bounds ends the process with SIGSEGV, a write just out of bounds
// with SIGABRT.
void set_guarded();
bool is_guarded();

// From here on what the libraries of a GPU's driver and of CUDA gain and open is nobody's: they do it for the whole
// process, in the time of whoever asks first. Those that are loaded later are known once an account has been opened.
void spare_drivers();

// The first file, socket, pipe, shared memory or process that was opened on the account, as "open(/tmp/x)"; or nothing.
std::string opened(int account);
void forget_opened(int account);

}  // namespace kvc::ledger
