// The keys of a GGUF file below its architecture's name.
#pragma once

#include <set>
#include <string>

#include "gguf/gguf_file.h"

namespace kvc {

class GgufMetadata {
 public:
  explicit GgufMetadata(const GgufFile& file) : file_(file), prefix_(file.text("general.architecture") + ".") {}

  bool has(const std::string& key) const { return file_.has(prefix_ + key); }
  double number(const std::string& key) const;  // an integer counts as one
  double number(const std::string& key, double absent) const { return has(key) ? number(key) : absent; }
  const std::string& text(const std::string& key) const { return file_.text(prefix_ + key); }
  bool boolean(const std::string& key, bool absent) const { return has(key) ? file_.boolean(prefix_ + key) : absent; }
  // One integer, or one for each layer that are all the same.
  int64_t integer(const std::string& key) const;
  int64_t integer(const std::string& key, int64_t absent) const { return has(key) ? integer(key) : absent; }
  // A bool or a number as it is; throws Error on another type.
  GgufValue scalar(const std::string& key) const;
  // One for each layer; nothing where the key is absent or holds no list.
  std::vector<int64_t> per_layer(const std::string& key) const;

  // Throws Error naming a key that is not known, unless its value switches it off.
  void refuse_unknown(const std::set<std::string>& known) const;
  const GgufFile& file() const { return file_; }
  std::string where(const std::string& key) const { return file_.path() + ": key '" + prefix_ + key + "'"; }

 private:
  bool is_nothing_(const std::string& key, const GgufValue& value) const;

  const GgufFile& file_;
  std::string prefix_;
};

}  // namespace kvc
