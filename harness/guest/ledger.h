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

// From here on what this thread gains is the account's, as is what threads gain that it starts. -> whose it was before
int open(int account);

// What the account has gained and nobody has given back, in the bytes that were asked for.
int64_t live_bytes(int account);

// The first file, socket, pipe, shared memory or process that was opened on the account, as "open(/tmp/x)"; or nothing.
std::string opened(int account);
void forget_opened(int account);

}  // namespace kvc::ledger
