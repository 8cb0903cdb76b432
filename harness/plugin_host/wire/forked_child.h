// A child process that is a fork of this one, for code of strangers: its crash, exit or silence costs its parent a
// line.
#pragma once

#include <sys/types.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "wire/line_buffer.h"
#include "wire/secret.h"

namespace kvc {

// It dies with its parent, leads a process group that ends with it, reads nothing, prints on standard error, and has
// none of its parent's open files.
class ForkedChild {
 public:
  using Say = std::function<void(const nlohmann::json& message)>;  // objects

  // Runs body(say) in the child. What it throws is the child's last message: {"error": text, "of_machine": false}.
  explicit ForkedChild(const std::function<void(const Say& say)>& body);
  ~ForkedChild();  // ends it
  ForkedChild(const ForkedChild&) = delete;
  ForkedChild& operator=(const ForkedChild&) = delete;

  // Its next message; null where there is none to come, or none came for so long.
  nlohmann::json receive(double seconds);
  // Why receive() gave null: "crashed by signal 11 (Segmentation fault)", "no answer after 60 s"
  std::string epitaph();

 private:
  bool read_more(double seconds);
  int reap();

  pid_t pid_ = -1;
  int fd_ = -1;
  LineBuffer lines_;
  std::string secret_ = drawn_secret();
  std::string epitaph_;
};

// What was computed in a child, or why nothing was.
struct ChildAnswer {
  nlohmann::json value;
  std::string error;        // "": none
  bool of_machine = false;  // the error was an EnvironmentError
};

inline constexpr double kSecondsToOpen = 60;

// compute(i) of each name in turn, in a child; behind one that ends it, in another child. take gets the answers in
// order. The error of one that died, or was silent for so long: "<name>: crashed by signal 6 (Aborted) while it was
// opened".
void in_child(const std::vector<std::string>& names, const std::function<nlohmann::json(size_t)>& compute,
              const std::function<void(size_t, const ChildAnswer&)>& take, double seconds = kSecondsToOpen);
// The values; throws the first error.
std::vector<nlohmann::json> in_child(const std::vector<std::string>& names,
                                     const std::function<nlohmann::json(size_t)>& compute,
                                     double seconds = kSecondsToOpen);

}  // namespace kvc
