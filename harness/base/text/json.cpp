#include "text/json.h"

#include <algorithm>
#include <vector>

#include "kvc/check.h"
#include "text/message.h"
#include "text/notice.h"
#include "text/text_file.h"
#include "text/utf8.h"

template class nlohmann::basic_json<>;
template class nlohmann::detail::serializer<nlohmann::json>;
template class nlohmann::detail::parser<nlohmann::json, nlohmann::detail::iterator_input_adapter<const char*>>;
template class nlohmann::detail::parser<nlohmann::json,
                                        nlohmann::detail::iterator_input_adapter<std::string::const_iterator>>;

namespace kvc {
namespace {

// A text as it is looked through before it is parsed, for what a parser does not tell.
class JsonScan {
 public:
  explicit JsonScan(std::string_view text) : text_(text) {}

  // Calls visit(position, length) for each NaN, Infinity or -Infinity in a value's place. Returns whether nesting is at
  // most kMaxJsonDepth deep; the text after a deeper bracket is not read.
  template <class Visit>
  bool run(const Visit& visit) {
    for (size_t at = 0; at < text_.size(); ++at) {
      const char c = text_[at];
      if (c == '"') {
        at = pass_string(at);
      } else if (c == '[' || c == '{') {
        if (keys_.size() >= kMaxJsonDepth) return false;
        keys_.emplace_back();
      } else if (c == ']' || c == '}') {
        if (!keys_.empty()) keys_.pop_back();
      } else if (c == ':') {
        if (!keys_.empty()) keys_.back() = string_;
      } else if (const size_t n = length_of_non_finite(at)) {
        visit(at, n);
        at += n - 1;
      }
    }
    return true;
  }

  // Of the value that is looked at; lists are passed over.
  std::string path() const {
    std::string path;
    for (const auto key : keys_) {
      if (!key.empty()) path += (path.empty() ? "" : ".") + std::string(key);
    }
    return path;
  }

 private:
  // -> where it ends
  size_t pass_string(size_t begin) {
    size_t end = begin + 1;
    while (end < text_.size() && text_[end] != '"')
      end += text_[end] == '\\' ? 2 : 1;  // what it escapes ends no string
    string_ = text_.substr(begin + 1, std::min(end, text_.size()) - begin - 1);
    return end;
  }

  static bool is_of_word(char c) {
    return c == '_' || c == '+' || c == '-' || c == '.' || static_cast<unsigned char>(c) >= 0x80 ||
           (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  }
  size_t length_of_non_finite(size_t at) const {
    if (text_[at] != 'N' && text_[at] != 'I' && text_[at] != '-') return 0;
    if (at > 0 && is_of_word(text_[at - 1])) return 0;
    for (const std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
      const bool ends = at + word.size() == text_.size() || !is_of_word(text_[at + word.size()]);
      if (text_.substr(at, word.size()) == word && ends) return word.size();
    }
    return 0;
  }

  std::string_view text_;
  std::vector<std::string_view> keys_;  // of each object and list that is open, the last key
  std::string_view string_;             // the last one
};

void check_depth(bool is_shallow, const std::string& where) {
  KVC_CHECK(is_shallow, where, ": error: JSON nested deeper than ", kMaxJsonDepth, " levels");
}

// The text with null in place of each NaN, Infinity and -Infinity.
struct JsonWithNulls {
  JsonWithNulls(std::string_view original, const std::string& where, NonFinite& non_finite) {
    JsonScan scan(original);
    size_t copied = 0;
    const bool is_shallow = scan.run([&](size_t at, size_t n) {
      if (non_finite.n++ == 0) non_finite.first = scan.path();
      text.append(original, copied, at - copied);
      text += "null";
      ends.emplace_back(text.size(), at + n);
      copied = at + n;
    });
    check_depth(is_shallow, where);
    if (copied > 0) text.append(original, copied);
  }
  // Of a byte of `text`, where it was in the original.
  size_t original_of(size_t at) const {
    const auto next = std::upper_bound(ends.begin(), ends.end(), std::pair(at, SIZE_MAX));
    const size_t original = next == ends.begin() ? at : at - std::prev(next)->first + std::prev(next)->second;
    return next == ends.end() ? original : std::min(original, next->second - 1);
  }
  std::string text;                             // empty where the original has none
  std::vector<std::pair<size_t, size_t>> ends;  // of each null, here and there
};

// What is wrong, without the library's own prefix and position ("[json.exception...] parse error at line 1, column 3:
// ").
std::string reason(const nlohmann::json::parse_error& error) {
  const std::string text = error.what();
  const auto start = text.find(": ");
  return start == std::string::npos ? text : text.substr(start + 2);
}

}  // namespace

bool is_shallow_json(std::string_view text) {
  return JsonScan(text).run([](size_t, size_t) {});
}

void check_json_depth(std::string_view text, const std::string& where) { check_depth(is_shallow_json(text), where); }

void NonFinite::tell(const std::filesystem::path& file) const {
  if (n == 0) return;
  notice(concat(file.string(), ": ", n, n == 1 ? " value is" : " values are",
                " NaN or Infinity, read as NULL; first: ", first.empty() ? "the file's one value" : first));
}

nlohmann::json parse_text_json(std::string_view text, const std::string& file, TextPlace place, NonFinite& non_finite) {
  const JsonWithNulls with_nulls(text, concat(file, ":", place.line), non_finite);
  try {
    return nlohmann::json::parse(with_nulls.ends.empty() ? text : with_nulls.text);
  } catch (const nlohmann::json::parse_error& error) {
    const size_t at = std::min(text.size(), with_nulls.original_of(error.byte == 0 ? 0 : error.byte - 1));
    throw Error(concat(file, ":", line_and_column(text, at, place.line, place.column),
                       ": error: not JSON: ", in_one_line(reason(error))));
  } catch (const nlohmann::json::out_of_range& error) {
    throw Error(concat(file, ":", place.line, ":", place.column, ": error: ", in_one_line(said_by(error))));
  }
}

nlohmann::json read_json_text(const std::filesystem::path& file) {
  NonFinite non_finite;
  auto value = parse_text_json(read_text(file), file.string(), {}, non_finite);
  non_finite.tell(file);
  return value;
}

std::optional<std::string> scalar_text(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  return value.is_number() ? std::optional(value.dump()) : std::nullopt;
}

}  // namespace kvc
