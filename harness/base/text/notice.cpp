#include "text/notice.h"

#include <cstdio>
#include <mutex>
#include <set>

#include "text/message.h"

namespace kvc {

void notice(const std::string& line) {
  static std::mutex mutex;
  static std::set<std::string> told;
  const std::lock_guard lock(mutex);
  if (told.insert(line).second) std::fprintf(stderr, "kvc: note: %s\n", in_one_line(line).c_str());
}

}  // namespace kvc
