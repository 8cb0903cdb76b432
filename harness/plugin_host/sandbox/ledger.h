// What code gains from the system, by who runs it: malloc and its kin, mappings, and what it opens. Tensors are in it,
// as everything is; MemoryMeter tells them apart.
#pragma once

#include <cstdint>
#include <string>

namespace kvc::ledger {

constexpr int kAccounts = 1 << 16;  // numbered from 0
constexpr int kNobody = -1;         // what it gains is not written down

// Whether this program writes down at all. It does, unless a sanitizer has the allocator.
bool is_kept();

// From here on what this thread gains is the account's, as is what threads gain that it starts; its OpenMP team gains
// for whatever account it has open then, but for members that have opened one of their own. -> whose it was before
int open(int account);
// What the thread shows its OpenMP team, for as long as it lives; and what this thread's master shows it, or null.
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

// What the account has gained and nobody has given back. From 1,024 bytes on in those that were asked for, and given
// back by anybody; smaller ones in those that they take, and given back while the account is open.
int64_t live_bytes(int account);
void forgive(int account);  // as if it had given all back

// From here on no account gets beyond so many bytes: who asks for more gets none, as where there is no more.
void set_limit(int64_t bytes);

// From here on each aligned allocation on an account, as of a tensor, lies between pages that cannot be touched, in
// bytes whose change is seen when it is freed: what is written or read far outside ends the process by SIGSEGV, what is
// written right beside it by SIGABRT.
void set_guarded();
bool is_guarded();

// From here on what the libraries of a GPU's driver and of CUDA gain and open is nobody's: they do it for the whole
// process, in the time of whoever asks first. Those that are loaded later are known once an account has been opened.
void spare_drivers();

// The first file, socket, pipe, shared memory or process that was opened on the account, as "open(/tmp/x)"; or nothing.
std::string opened(int account);
void forget_opened(int account);

}  // namespace kvc::ledger
