// Which compressors run in processes of their own.
#pragma once

#include <string>

namespace kvc {

struct IsolationChoice {
  std::string isolation;  // process, none; "": process for plugins that were not built with kvc
  std::string python;     // interpreter of compressors in Python; "": KVC_PYTHON, or python3
};

}  // namespace kvc
