#include "data/csv.h"

#include "kvc/check.h"

namespace kvc {
namespace {

class CsvReader {
 public:
  CsvReader(const std::string& file, std::string_view text) : file_(file), text_(text) {}

  std::vector<CsvRow> rows() {
    std::vector<CsvRow> rows;
    while (at_ < text_.size()) {
      if (skip_line_end()) continue;
      CsvRow row{line_, {field()}};
      while (take(',')) row.fields.push_back(field());
      if (at_ < text_.size() && !skip_line_end())
        fail("text after a closing quote, expected a comma or the end of the line");
      rows.push_back(std::move(row));
    }
    return rows;
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw Error(concat(file_, ":", line_, ":", at_ - line_start_ + 1, ": error: ", what));
  }
  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    if (c == '\n') {
      ++line_;
      line_start_ = at_;
    }
    return true;
  }
  bool skip_line_end() {
    if (text_.substr(at_, 2) == "\r\n") ++at_;
    return take('\n');
  }
  bool at_field_end() const {
    return at_ == text_.size() || text_[at_] == ',' || text_[at_] == '\n' || text_.substr(at_, 2) == "\r\n";
  }

  std::string field() { return take('"') ? quoted() : bare(); }

  std::string bare() {
    const size_t start = at_;
    while (!at_field_end()) ++at_;
    return std::string(text_.substr(start, at_ - start));
  }

  std::string quoted() {
    const int64_t opened_line = line_;
    const size_t opened_column = at_ - line_start_;
    std::string field;
    while (true) {
      if (at_ == text_.size()) {
        throw Error(concat(file_, ":", opened_line, ":", opened_column, ": error: the quote is not closed"));
      }
      const char c = text_[at_];
      take(c);
      if (c == '"' && !take('"')) return field;
      field += c;
    }
  }

  const std::string& file_;
  std::string_view text_;
  size_t at_ = 0, line_start_ = 0;
  int64_t line_ = 1;
};

}  // namespace

std::vector<CsvRow> parse_csv(const std::string& file, std::string_view text) { return CsvReader(file, text).rows(); }

}  // namespace kvc
