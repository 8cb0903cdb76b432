// From bytes to a checked YAML document: limits, UTF-8, one document, no duplicate keys (yaml-cpp accepts those
// silently).
#include <algorithm>
#include <set>

#include "text/files.h"
#include "text/utf8.h"
#include "text/yaml_read.h"

namespace kvc {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;
constexpr int kMaxDepth = 32;
constexpr int kMaxNodes = 10'000;

void check_bytes(const std::string& file, const std::string& text) {
  KVC_CHECK(text.size() <= kMaxBytes, file, ":1:1: error: the file has ", text.size(), " bytes, allowed: ", kMaxBytes);
  auto bad = first_invalid_utf8(text);
  if (!bad && text.find('\0') != std::string::npos) bad = text.find('\0');
  if (!bad) return;
  const std::string before = text.substr(0, *bad);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const auto column = before.size() - (before.rfind('\n') + 1) + 1;
  throw Error(concat(file, ":", line, ":", column, ": error: not UTF-8 text"));
}

class DocumentCheck {
 public:
  explicit DocumentCheck(std::string file) : file_(std::move(file)) {}

  void visit(const YAML::Node& node, YAML::Mark mark, int depth) {
    if (!node.Mark().is_null()) mark = node.Mark();
    const YamlValue place(file_, "", node, mark);
    if (depth > kMaxDepth) place.fail("nested deeper than ", kMaxDepth, " levels");
    if (++n_nodes_ > kMaxNodes) place.fail("more than ", kMaxNodes, " values (aliases count each time)");
    if (node.IsMap()) visit_map(node, depth);
    if (node.IsSequence()) {
      for (const auto& item : node) visit(item, mark, depth + 1);
    }
  }

 private:
  void visit_map(const YAML::Node& map, int depth) {
    std::set<std::string> keys;
    for (const auto& entry : map) {
      const YamlValue key(file_, "", entry.first, entry.first.Mark().is_null() ? map.Mark() : entry.first.Mark());
      if (!key.is_scalar()) key.fail("a key is ", key.found(), ", expected a string");
      if (!keys.insert(entry.first.Scalar()).second) key.fail("duplicate key ", key.found());
      visit(entry.second, entry.first.Mark(), depth + 1);
    }
  }

  std::string file_;
  int n_nodes_ = 0;
};

}  // namespace

YamlValue parse_yaml(const std::string& file, const std::string& text) {
  check_bytes(file, text);
  std::vector<YAML::Node> documents;
  try {
    documents = YAML::LoadAll(text);
  } catch (const YAML::Exception& error) {
    throw Error(concat(file, ":", error.mark.line + 1, ":", error.mark.column + 1, ": error: not YAML: ", error.msg));
  }
  KVC_CHECK(!documents.empty() && !documents[0].IsNull(), file, ":1:1: error: the file is empty");
  KVC_CHECK(documents.size() == 1, file, ":1:1: error: ", documents.size(), " YAML documents, expected one");
  const YAML::Mark start = documents[0].Mark();
  DocumentCheck(file).visit(documents[0], start, 1);
  return YamlValue(file, "", documents[0], start);
}

YamlValue load_yaml(const std::filesystem::path& path) {
  std::error_code none;
  const auto n_bytes = std::filesystem::is_regular_file(path, none) ? std::filesystem::file_size(path, none) : 0;
  KVC_CHECK(n_bytes <= kMaxBytes, path.string(), ":1:1: error: the file has ", n_bytes, " bytes, allowed: ", kMaxBytes);
  return parse_yaml(path.string(), read_file(path));
}

}  // namespace kvc
