#pragma once

#include <string>

namespace kvc::test {

// What a file for `kvc check` says of the check itself; its models, tasks and compressors stand elsewhere.
inline const std::string kCheckSettings = R"(name: check
check:
  context: 600
  lengths: 2
  quick: {limit: 5, lengths: 1}
  bounds:
    kl: {unchanged: 0.01, breaks: 0.2}
    top1: {unchanged: 97, breaks: 80}
    passkey: {unchanged: 0, breaks: 20}
  outlier_channel: 6
)";

}  // namespace kvc::test
