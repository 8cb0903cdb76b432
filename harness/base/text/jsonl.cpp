#include "text/jsonl.h"

#include <string>

#include "kvc/check.h"
#include "text/json.h"
#include "text/utf8.h"

namespace kvc {
namespace {

constexpr size_t kMaxValueBytes = size_t{64} << 20;
constexpr int kEof = std::char_traits<char>::eof();

bool is_blank(int c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

}  // namespace

class JsonLines::Reader {
 public:
  Reader(const std::filesystem::path& path, TextEncoding encoding)
      : file_(path.string()), encoding_(encoding), bytes_(path, encoding) {
    while (is_blank(bytes_.sgetc())) take();
    is_array_ = bytes_.sgetc() == '[';
    if (is_array_) take();
  }

  bool next(nlohmann::json& value) {
    if (!(is_array_ ? next_item() : next_line())) {
      non_finite_.tell(file_);
      return false;
    }
    if (encoding_ == TextEncoding::kLatin1) text_ = latin1_to_utf8(text_);
    const auto bad = first_invalid_utf8(text_);
    KVC_CHECK(!bad, file_, ":", line_and_column(text_, *bad, begin_.line, begin_.column),
              ": error: not well-formed UTF-8");
    value = parse_text_json(text_, file_, begin_, non_finite_);
    return true;
  }
  int64_t line() const { return begin_.line; }
  int64_t n_file_bytes() const { return bytes_.n_file_bytes(); }

 private:
  int take() {
    const int c = bytes_.sbumpc();
    ++here_.column;
    if (c == '\n') here_ = {here_.line + 1, 1};
    return c;
  }
  void add(int c) {
    KVC_CHECK(text_.size() < kMaxValueBytes, file_, ":", begin_.line, ":1: error: the ", is_array_ ? "item" : "line",
              " is longer than ", kMaxValueBytes, " bytes");
    text_ += static_cast<char>(c);
  }

  // The next line that is not blank.
  bool next_line() {
    do {
      if (bytes_.sgetc() == kEof) return false;
      begin_ = here_;
      text_.clear();
      for (int c = take(); c != kEof && c != '\n'; c = take()) add(c);
    } while (text_.find_first_not_of(" \t\r") == std::string::npos);
    return true;
  }

  // The array's next item, up to the comma or bracket that ends it.
  bool next_item() {
    if (is_closed_) return false;
    while (is_blank(bytes_.sgetc())) take();
    begin_ = here_;
    text_.clear();
    int64_t depth = 0;
    bool in_string = false;
    int c = take();
    for (; in_string || depth > 0 || (c != ',' && c != ']'); c = take()) {
      KVC_CHECK(c != kEof, file_, ":", here_.line, ":", here_.column - 1, ": error: not JSON: the array is not closed");
      add(c);
      if (c == '"') in_string = !in_string;
      if (in_string && c == '\\' && bytes_.sgetc() != kEof) add(take());  // what it escapes ends no string
      if (!in_string) depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
    }
    is_closed_ = c == ']';
    if (is_closed_) expect_end();
    const bool is_empty_array = is_closed_ && n_items_ == 0 && text_.empty();
    ++n_items_;
    return !is_empty_array;
  }

  void expect_end() {
    while (is_blank(bytes_.sgetc())) take();
    KVC_CHECK(bytes_.sgetc() == kEof, file_, ":", here_.line, ":", here_.column,
              ": error: not JSON: text after the array that the file begins with");
  }

  std::string file_;
  TextEncoding encoding_;
  TextStream bytes_;
  bool is_array_ = false, is_closed_ = false;
  int64_t n_items_ = 0;  // of the array
  TextPlace here_, begin_;
  std::string text_;
  NonFinite non_finite_;
};

JsonLines::JsonLines(const std::filesystem::path& path, TextEncoding encoding)
    : reader_(std::make_unique<Reader>(path, encoding)) {}

JsonLines::~JsonLines() = default;

bool JsonLines::next(nlohmann::json& value) { return reader_->next(value); }
int64_t JsonLines::line() const { return reader_->line(); }
int64_t JsonLines::n_file_bytes() const { return reader_->n_file_bytes(); }

void read_jsonl(const std::filesystem::path& path,
                const std::function<void(int64_t line, const nlohmann::json& value)>& visit,
                const std::function<void(int64_t n_bytes)>& on_bytes, TextEncoding encoding) {
  JsonLines lines(path, encoding);
  nlohmann::json value;
  while (lines.next(value)) {
    visit(lines.line(), value);
    if (on_bytes) on_bytes(lines.n_file_bytes());
  }
}

}  // namespace kvc
