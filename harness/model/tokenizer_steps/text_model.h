// The part of a tokenizer that turns plain text into ids: one implementation for each kind of file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvc {

// Immutable; may be used from several threads at once.
class TextModel {
 public:
  virtual ~TextModel() = default;

  // Appends the ids of valid UTF-8 that holds no added token. at_start: it begins at the first byte of the whole input.
  virtual void encode(std::string_view text, bool at_start, std::vector<int64_t>& ids) const = 0;

  virtual std::optional<int64_t> id(std::string_view token) const = 0;
  virtual const std::string* token(int64_t id) const = 0;  // as decoders take it; null where the id has none
  virtual int64_t size() const = 0;                        // tokens
};

}  // namespace kvc
