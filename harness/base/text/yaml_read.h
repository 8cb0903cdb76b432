// Strict reading of YAML: every value knows its file, line and column; every key is read or refused.
// Errors are one line: "file:line:column: error: <name> is <what was found>, expected <what is allowed>".
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kvc/check.h"
#include "text/message.h"

namespace kvc {

class YamlMap;

// One value of a file, with its place and its name ("prompt.template", "compressors[0].bits", "" for the whole file).
class YamlValue {
 public:
  YamlValue(std::string file, std::string name, YAML::Node node, YAML::Mark mark)
      : file_(std::move(file)), name_(std::move(name)), node_(std::move(node)), mark_(mark) {}

  bool is_null() const { return node_.IsNull(); }
  bool is_scalar() const { return node_.IsScalar(); }
  bool is_sequence() const { return node_.IsSequence(); }
  bool is_map() const { return node_.IsMap(); }

  // A scalar as written. Unquoted true, false, yes, no, on, off and null are refused: they mean something else in YAML.
  std::string string() const;
  // Plain (unquoted) numbers within [min, max].
  int64_t integer(int64_t min = std::numeric_limits<int64_t>::min(),
                  int64_t max = std::numeric_limits<int64_t>::max()) const;
  double real(double min = std::numeric_limits<double>::lowest(),
              double max = std::numeric_limits<double>::max()) const;
  // true or false; YAML 1.1's yes, no, on, off are refused.
  bool boolean() const;
  // A string that is one of `allowed`.
  std::string choice(const std::vector<std::string>& allowed) const;
  std::vector<YamlValue> sequence() const;
  std::vector<std::string> strings() const;
  YamlMap map() const;
  // Scalar, sequence or map as the value that YAML's core schema gives it; for values that only a plugin understands.
  const YAML::Node& node() const { return node_; }

  const std::string& file() const { return file_; }
  std::filesystem::path folder() const { return std::filesystem::path(file_).parent_path(); }  // of the file
  const std::string& name() const { return name_; }
  int64_t line() const { return mark_.line + 1; }      // from 1
  int64_t column() const { return mark_.column + 1; }  // from 1
  // file:line:column, or the file alone for a value that was put in by hand
  std::string where() const { return mark_.is_null() ? file_ : concat(file_, ":", line(), ":", column()); }
  // "a map", "a sequence", "nothing", "'text'": the value in a message.
  std::string found() const;

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw Error(concat(where(), ": error: ", in_one_line(concat(parts...))));
  }

 private:
  [[noreturn]] void fail_expected(const std::string& expected) const;
  std::string file_, name_;
  YAML::Node node_;
  YAML::Mark mark_;
};

// A map being read: remembers which keys were asked for, so that the others can be refused by name. A file's map may
// lie over the maps of others, whose keys it has where it says nothing of that name itself.
class YamlMap {
 public:
  explicit YamlMap(YamlValue value) : layers_{std::move(value)} {}

  // Lays it over the file that its key `like` names, that one over the next, and so on. load: such a key's file. what:
  // "tasks". Throws Error for those that are like each other.
  void lay_over(const char* what, const std::function<YamlValue(const YamlValue& like)>& load);

  YamlValue required(const std::string& key);
  std::optional<YamlValue> optional(const std::string& key);
  bool has(const std::string& key) { return optional(key).has_value(); }

  std::string required_string(const std::string& key) { return required(key).string(); }
  std::string optional_string(const std::string& key, const std::string& otherwise);
  int64_t required_integer(const std::string& key, int64_t min, int64_t max) { return required(key).integer(min, max); }
  int64_t optional_integer(const std::string& key, int64_t min, int64_t max, int64_t otherwise);
  double optional_real(const std::string& key, double min, double max, double otherwise);
  bool optional_boolean(const std::string& key, bool otherwise);
  std::vector<std::string> optional_strings(const std::string& key);  // {} when absent
  std::string required_choice(const std::string& key, const std::vector<std::string>& allowed);
  std::string optional_choice(const std::string& key, const std::vector<std::string>& allowed,
                              const std::string& otherwise);

  // Every key of this file with its value, in order, all counted as asked for: for maps whose keys are the user's own.
  std::vector<std::pair<std::string, YamlValue>> entries();
  // Throws for the keys that were never asked for. Call it after the last read. beneath: in the other files, too.
  void reject_unknown(bool beneath = true) const;
  const YamlValue& value() const { return layers_.front(); }
  const std::vector<YamlValue>& layers() const { return layers_; }  // itself, then those beneath
  YAML::Node merged() const;                                        // as one map

 private:
  std::vector<YamlValue> layers_;
  std::vector<std::string> asked_;
  std::vector<std::string> misspelled_;  // keys that the message on a missing one named
};

// The file's one document, with all duplicate keys refused. Limits: 1 MiB, depth 32, 10,000 nodes, UTF-8 without NUL.
YamlValue load_yaml(const std::filesystem::path& path);
YamlValue parse_yaml(const std::string& file, const std::string& text);  // `file` is the name in messages
// The same, of one value within a file or on a command line, which may be nothing.
YamlValue parse_yaml_value(const std::string& what, const std::string& text);

}  // namespace kvc
