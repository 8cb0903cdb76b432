// A verified plugin's report, for people and for build servers.
#pragma once

#include <string>

#include "conformance/verify.h"

namespace kvc::conformance {

// A table of checks with their counts, then each failure, each reason for a check that does not apply, each fact.
std::string write_markdown(const Report& report);

// JUnit XML: a test suite whose cases are checks, their class names the options and model.
std::string write_junit(const Report& report);

}  // namespace kvc::conformance
