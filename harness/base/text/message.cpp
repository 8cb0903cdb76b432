#include "text/message.h"

#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>

#include "kvc/check.h"
#include "text/utf8.h"

namespace kvc {
namespace {

constexpr size_t kLongest = 4000;  // bytes

std::string cut(std::string_view text, size_t longest) {
  std::string line(text.substr(0, longest));
  if (text.size() > longest) line.replace(complete_utf8(text.substr(0, longest - 4)), line.size(), " ...");
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < ' ' || c == 127) c = ' ';
  }
  return line;
}

}  // namespace

std::string one_line(std::string_view text) { return cut(text.substr(0, text.find('\n')), kLongest); }
std::string in_one_line(std::string_view text) { return cut(text, kLongest / 2); }

std::string said_by(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error)) return kOutOfMemory;
  if (const auto* of_file = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return concat("'", of_file->path1().string(), "': ", of_file->code().message());
  const std::string text = error.what();
  if (text.find("DefaultCPUAllocator: can't allocate memory") != std::string::npos) return kOutOfMemory;  // LibTorch's
  if (!dynamic_cast<const nlohmann::json::exception*>(&error)) return text;
  const auto name_end = text.find("] ");  // [json.exception.out_of_range.406]
  return "JSON: " + (name_end == std::string::npos ? text : text.substr(name_end + 2));
}

}  // namespace kvc
