// The keys that a YAML map may hold, each declared once, where it is read: its name and help, the variable (holding the
// default) and what it may be. A KeyReader assigns them from a file; a KeyList describes them for a page of the docs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "text/several_errors.h"
#include "text/yaml_read.h"

namespace kvc {

constexpr bool kRequired = true;

struct YamlKey {
  const char* name;
  const char* help;  // one line, with the unit
  bool is_required = false;
  const char* otherwise = nullptr;  // the default in words, where the variable's value does not say it
};

class YamlKeys {
 public:
  static constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
  static constexpr double kMostReal = std::numeric_limits<double>::max();
  using Declare = std::function<void(YamlKeys&)>;
  using Read = std::function<void(const YamlValue&)>;

  virtual ~YamlKeys() = default;
  virtual void text(const YamlKey& key, std::string& value) = 0;
  virtual void texts(const YamlKey& key, std::vector<std::string>& value) = 0;
  virtual void integer(const YamlKey& key, int64_t& value, int64_t min = kLeast, int64_t max = kMost) = 0;
  virtual void integer(const YamlKey& key, std::optional<int64_t>& value, int64_t min, int64_t max = kMost) = 0;
  virtual void real(const YamlKey& key, double& value, double min, double max = kMostReal) = 0;
  virtual void boolean(const YamlKey& key, bool& value) = 0;
  virtual void choice(const YamlKey& key, std::string& value, const std::vector<std::string>& allowed) = 0;
  // A map, whose keys `keys` declares. check, if any, sees it first.
  virtual void map(const YamlKey& key, const Declare& keys, const Read& check = {}) = 0;
  // Whatever has no form of its own above: `form` says in words what it may be, `keys` what keys it has as a map.
  virtual void other(const YamlKey& key, const std::string& form, const Read& read, const Declare& keys = {}) = 0;
  // What must hold between the keys so far; of a file alone.
  virtual void then(const std::function<void(YamlMap&)>& check) = 0;
};

// Reads a map's keys in the order of their declaration. Whoever made it calls reject_unknown() of the map.
// What is wrong is thrown at once, or with `errors` added to them, so that the next keys are read, too.
class KeyReader : public YamlKeys {
 public:
  explicit KeyReader(YamlMap& map, ErrorList* errors = nullptr) : map_(map), errors_(errors) {}
  void text(const YamlKey& key, std::string& value) override;
  void texts(const YamlKey& key, std::vector<std::string>& value) override;
  void integer(const YamlKey& key, int64_t& value, int64_t min, int64_t max) override;
  void integer(const YamlKey& key, std::optional<int64_t>& value, int64_t min, int64_t max) override;
  void real(const YamlKey& key, double& value, double min, double max) override;
  void boolean(const YamlKey& key, bool& value) override;
  void choice(const YamlKey& key, std::string& value, const std::vector<std::string>& allowed) override;
  void map(const YamlKey& key, const Declare& keys, const Read& check) override;
  void other(const YamlKey& key, const std::string& form, const Read& read, const Declare& keys) override;
  void then(const std::function<void(YamlMap&)>& check) override;

 private:
  // What `read` makes of the key's value, where it is there.
  void with(const YamlKey& key, const Read& read);
  YamlMap& map_;
  ErrorList* errors_;
};

// All of them, with reject_unknown(). Throws all errors together.
void read_keys(YamlMap map, const YamlKeys::Declare& keys);

// The declarations as lines; keys of maps inside stand behind theirs, with its name: "sampling.top_k".
class KeyList : public YamlKeys {
 public:
  struct Line {
    std::string name, form, otherwise, help;
  };

  void text(const YamlKey& key, std::string& value) override;
  void texts(const YamlKey& key, std::vector<std::string>& value) override;
  void integer(const YamlKey& key, int64_t& value, int64_t min, int64_t max) override;
  void integer(const YamlKey& key, std::optional<int64_t>& value, int64_t min, int64_t max) override;
  void real(const YamlKey& key, double& value, double min, double max) override;
  void boolean(const YamlKey& key, bool& value) override;
  void choice(const YamlKey& key, std::string& value, const std::vector<std::string>& allowed) override;
  void map(const YamlKey& key, const Declare& keys, const Read& check) override;
  void other(const YamlKey& key, const std::string& form, const Read& read, const Declare& keys) override;
  void then(const std::function<void(YamlMap&)>&) override {}

  const std::vector<Line>& lines() const { return lines_; }

 private:
  void add(const YamlKey& key, std::string form, const std::string& value);
  void add_below(const YamlKey& key, const Declare& keys);
  std::string prefix_;
  std::vector<Line> lines_;
};

}  // namespace kvc
