// A plugin's options struct lists each field once, in visit(OptionVisitor&), which the host uses to describe, assign
// and record options.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "kvc/check.h"

namespace kvc {

constexpr int64_t kNoUpperLimit = std::numeric_limits<int64_t>::max();

// Each function takes the field (with its default value, which the call may replace), the allowed values, and one line
// of help with the unit; texts need not outlive the call. Names are snake_case and never change their meaning.
class KVC_EXPORT OptionVisitor {
 public:
  virtual ~OptionVisitor();
  virtual void integer(const char* name, int64_t& value, int64_t min, int64_t max, const char* help) = 0;
  virtual void integer_of(const char* name, int64_t& value, std::initializer_list<int64_t> allowed,
                          const char* help) = 0;
  virtual void real(const char* name, double& value, double min, double max, const char* help) = 0;
  virtual void boolean(const char* name, bool& value, const char* help) = 0;  // true or false
  virtual void choice(const char* name, std::string& value, std::initializer_list<const char*> allowed,
                      const char* help) = 0;
  // One integer for all layers, or one per layer. Written as 4 or "8,4,4,2", because a list in YAML is a sweep;
  // recorded as that text.
  virtual void integers_of(const char* name, std::vector<int64_t>& value, std::initializer_list<int64_t> allowed,
                           const char* help) = 0;
  // One of these words, or a file. Paths in an experiment are relative to its folder; the hash of the content is
  // recorded.
  virtual void file(const char* name, std::string& value, std::initializer_list<const char*> words,
                    const char* help) = 0;
};

}  // namespace kvc
