// Lines out of a stream that comes in pieces; each byte is looked at once, however long a line.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvc {

class LineBuffer {
 public:
  void append(std::string_view piece) { bytes_ += piece; }

  bool has_line() {
    if (end_ == std::string::npos) end_ = bytes_.find('\n', searched_);
    searched_ = bytes_.size();
    return end_ != std::string::npos;
  }

  std::optional<std::string> next() {
    if (!has_line()) {
      bytes_.erase(0, begin_);
      searched_ = bytes_.size();
      begin_ = 0;
      return std::nullopt;
    }
    auto line = bytes_.substr(begin_, end_ - begin_);
    begin_ = searched_ = end_ + 1;
    end_ = std::string::npos;
    return line;
  }

  size_t n_bytes() const { return bytes_.size() - begin_; }

 private:
  std::string bytes_;
  size_t begin_ = 0, searched_ = 0, end_ = std::string::npos;
};

}  // namespace kvc
