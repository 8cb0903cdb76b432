#include "text/jsonl.h"

#include <nlohmann/json.hpp>
#include <string>

#include "kvc/check.h"
#include "text/files.h"
#include "text/json.h"
#include "text/message.h"
#include "text/utf8.h"

namespace kvc {
namespace {

constexpr size_t kMaxLineBytes = size_t{64} << 20;

enum class Read { kLine, kEnd, kTooLong };

Read next_line(std::streambuf& bytes, std::string& line) {
  constexpr int kEof = std::char_traits<char>::eof();
  line.clear();
  int c = bytes.sbumpc();
  if (c == kEof) return Read::kEnd;
  for (; c != kEof && c != '\n'; c = bytes.sbumpc()) {
    if (line.size() == kMaxLineBytes) return Read::kTooLong;
    line += static_cast<char>(c);
  }
  return Read::kLine;
}

// What is wrong, without the library's own prefix and position ("[json.exception...] parse error at line 1, column 3:
// ").
std::string reason(const nlohmann::json::parse_error& error) {
  const std::string text = error.what();
  const auto start = text.find(": ");
  return start == std::string::npos ? text : text.substr(start + 2);
}

nlohmann::json parse_line(const std::string& where, const std::string& line) {
  const auto bad_byte = first_invalid_utf8(line);
  KVC_CHECK(!bad_byte, where, ":", *bad_byte + 1, ": error: not well-formed UTF-8");
  check_json_depth(line, where);
  try {
    return nlohmann::json::parse(line);
  } catch (const nlohmann::json::parse_error& error) {
    throw Error(concat(where, ":", error.byte, ": error: not JSON: ", in_one_line(reason(error))));
  } catch (const nlohmann::json::out_of_range& error) {
    throw Error(concat(where, ":1: error: ", in_one_line(said_by(error))));
  }
}

}  // namespace

void read_jsonl(const std::filesystem::path& path,
                const std::function<void(int64_t line, const nlohmann::json& value)>& visit,
                const std::function<void(int64_t n_bytes)>& on_bytes) {
  auto file = open_to_read(path);
  std::string line;
  int64_t n_bytes = 0;
  for (int64_t number = 1;; ++number) {
    const auto where = concat(path.string(), ":", number);
    const Read result = next_line(*file.rdbuf(), line);
    if (result == Read::kEnd) return;
    KVC_CHECK(result == Read::kLine, where, ":1: error: the line is longer than ", kMaxLineBytes, " bytes");
    n_bytes += static_cast<int64_t>(line.size()) + 1;
    if (on_bytes) on_bytes(n_bytes);
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    visit(number, parse_line(where, line));
  }
}

}  // namespace kvc
