// The conformance suite on one plugin, in child processes, so that a plugin that crashes costs one line of the report.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kvc::conformance {

enum class Verdict { passed, failed, not_applicable };

// How the reason begins that holds for all checks of a case.
inline constexpr const char* kRefusesModel = "refuses this model: ";

// One check on one case.
struct Result {
  std::string check;
  std::string on;  // options and model
  Verdict verdict = Verdict::passed;
  std::vector<std::string> messages;  // complaints, or the one reason why it does not apply
  std::vector<std::string> notes;
};

struct Report {
  std::string plugin, summary, sha256, file;
  std::vector<Result> results;

  int64_t count(Verdict verdict) const;
};

struct VerifyOptions {
  std::optional<nlohmann::json> options;  // without: the option sweep
  std::vector<std::string> checks;        // names; none: all
  std::string device = "cpu";             // or one on which CUDA code runs
  std::string isolation = {};  // as of an experiment: "process", "none"; "": process unless it was built with kvc
  int seconds_a_check = 300;
  bool paranoid =
      false;  // tensors between guard pages: a write or a read outside ends the check, at some ten times the time
  std::function<void(const Result&)> on_result = [](const Result&) {};
};

// Runs every check on every case. A child that dies, or exceeds its time, fails the check it was in, and another child
// goes on with the next. Throws Error where the file is no plugin of this build or refuses the options, or there is no
// such check. What the plugin prints goes to standard error. Call it before this process uses LibTorch: the children are
// forks.
Report verify(const std::filesystem::path& file, const VerifyOptions& options);

}  // namespace kvc::conformance
