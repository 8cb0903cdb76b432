// What a child's messages begin with, so that code in the child which finds the socket or pipe by looking cannot speak
// for it. Code that searches the process's memory can: one address space keeps no secret.
#pragma once

#include <random>
#include <string>

namespace kvc {

constexpr size_t kSecretBytes = 32;  // hex digits

inline std::string drawn_secret() {
  std::random_device random;
  std::string secret;
  while (secret.size() < kSecretBytes) secret += "0123456789abcdef"[random() % 16];
  return secret;
}

}  // namespace kvc
