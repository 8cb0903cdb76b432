#include <algorithm>

#include "cli/verbs.h"

namespace kvc {

std::string both_spellings(const std::string& name) {
  auto with_underscores = name;
  std::replace(with_underscores.begin() + 2, with_underscores.end(), '-', '_');
  return name == with_underscores ? name : name + "," + with_underscores;
}

}  // namespace kvc
