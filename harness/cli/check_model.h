// kvc check MODEL: what presets do to a model, with a verdict for each.
#pragma once

#include <string>
#include <vector>

namespace kvc {

struct CheckModelArguments {
  std::string model, config = "configs/check.yaml", text, database, output;
  std::vector<std::string> settings;  // path=value put over the file
  int64_t context = 0;                // 0: the file's
  bool quick = false;
};

int check_model(const CheckModelArguments& arguments);

}  // namespace kvc
