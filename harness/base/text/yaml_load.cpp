// From bytes to a checked YAML document: limits, UTF-8, one document, no duplicate keys (yaml-cpp accepts those
// silently).
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>

#include <set>
#include <sstream>

#include "text/files.h"
#include "text/message.h"
#include "text/text_file.h"
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
  throw Error(concat(file, ":", line_and_column(text, *bad), ": error: not UTF-8 text"));
}

// Sees where each document of a text starts.
class Starts : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (mark.pos == last_) throw YAML::ParserException(mark, "no value can begin here");
    last_ = mark.pos;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  int last_ = -1;
};

// Not by YAML::LoadAll: from ",a" on it finds one more empty document for ever.
size_t count_documents(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  Starts starts;
  size_t n = 0;
  while (parser.HandleNextDocument(starts)) ++n;
  return n;
}

class DocumentCheck {
 public:
  explicit DocumentCheck(std::string file) : file_(std::move(file)) {}

  void visit(const YAML::Node& node, YAML::Mark mark, int depth) {
    if (!node.Mark().is_null()) mark = node.Mark();
    const YamlValue place(file_, "", node, mark);
    if (depth > kMaxDepth) place.fail("nested deeper than ", kMaxDepth, " levels");
    if (++n_nodes_ > kMaxNodes) place.fail("more than ", kMaxNodes, " values (aliases count each time)");
    check_text(place);
    if (node.IsMap()) visit_map(node, depth);
    if (node.IsSequence()) {
      for (const auto& item : node) visit(item, mark, depth + 1);
    }
  }

 private:
  static void check_text(const YamlValue& value) {
    const auto& node = value.node();
    if (node.IsScalar() && node.Scalar().find('\0') != std::string::npos) {
      value.fail("a text holds a NUL character, at which others would cut it");
    }
  }

  void visit_map(const YAML::Node& map, int depth) {
    std::set<std::string> keys;
    for (const auto& entry : map) {
      const YamlValue key(file_, "", entry.first, entry.first.Mark().is_null() ? map.Mark() : entry.first.Mark());
      if (!key.is_scalar()) key.fail("a key is ", key.found(), ", expected a string");
      check_text(key);
      if (!keys.insert(entry.first.Scalar()).second) key.fail("duplicate key ", key.found());
      visit(entry.second, entry.first.Mark(), depth + 1);
    }
  }

  std::string file_;
  int n_nodes_ = 0;
};

}  // namespace

YamlValue parse_yaml_value(const std::string& file, const std::string& text) {
  check_bytes(file, text);
  size_t n_documents = 0;
  YAML::Node document;
  try {
    n_documents = count_documents(text);
    if (n_documents > 0) document = YAML::Load(text);
  } catch (const YAML::DeepRecursion& error) {
    throw Error(concat(file, ":", error.mark.line + 1, ":", error.mark.column + 1, ": error: nested deeper than ",
                       kMaxDepth, " levels"));
  } catch (const YAML::Exception& error) {
    throw Error(concat(file, ":", error.mark.line + 1, ":", error.mark.column + 1,
                       ": error: not YAML: ", in_one_line(error.msg)));
  }
  KVC_CHECK(n_documents <= 1, file, ":1:1: error: ", n_documents, " YAML documents, expected one");
  const YAML::Mark start = document.Mark();
  DocumentCheck(file).visit(document, start, 1);
  return YamlValue(file, "", document, start);
}

YamlValue parse_yaml(const std::string& file, const std::string& text) {
  auto value = parse_yaml_value(file, text);
  KVC_CHECK(!value.is_null(), file, ":1:1: error: the file is empty");
  return value;
}

YamlValue load_yaml(const std::filesystem::path& path) {
  std::error_code none;
  const auto n_bytes = std::filesystem::is_regular_file(path, none) ? std::filesystem::file_size(path, none) : 0;
  KVC_CHECK(n_bytes <= kMaxBytes, path.string(), ":1:1: error: the file has ", n_bytes, " bytes, allowed: ", kMaxBytes);
  const auto text = read_file(path);
  return parse_yaml(path.string(), text.substr(check_text_start(text, path)));
}

}  // namespace kvc
