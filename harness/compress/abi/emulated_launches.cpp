#include "kvc/emulated_launches.h"

namespace kvc {

std::atomic<int64_t>& emulated_launches() {
  static std::atomic<int64_t> n{0};
  return n;
}

}  // namespace kvc
