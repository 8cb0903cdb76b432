// kvc check MODEL: what presets do to a model, with a verdict for each.
#pragma once

#include <string>
#include <vector>

namespace kvc {

struct CheckModelArguments {
  std::string model, config = "configs/check.yaml", text, database, output, allow_plugins;
  std::vector<std::string> settings;  // path=value put over the file
  int64_t context = 0;                // 0: the file's
  bool quick = false;
};

struct CheckOutcome {
  std::string database;
  int signal = 0;  // that ended it early
  int64_t n_failed = 0;
};

// Prints the tables; throws Error.
CheckOutcome check_model(const CheckModelArguments& arguments);

}  // namespace kvc
