#include "gguf/gguf_file.h"

#include <charconv>

#include "gguf/header.h"
#include "kvc/check.h"
#include "text/utf8.h"

namespace kvc {
namespace {

constexpr int64_t kMaxFiles = 256;

// "x-00002-of-00003.gguf": which one, of how many
struct SplitName {
  std::string stem;
  int64_t number = 0, count = 0;
};

int64_t digits(std::string_view text) {
  int64_t value = -1;
  const auto end = text.data() + text.size();
  return std::from_chars(text.data(), end, value).ptr == end ? value : -1;
}

SplitName split_name(const std::filesystem::path& path) {
  constexpr size_t kLength = std::string_view("-00001-of-00003.gguf").size();
  const auto name = path.filename().string();
  const auto refuse = [&] {
    return Error(concat(path.string(), ": one of several files, expected a name as x-00001-of-00003.gguf"));
  };
  if (name.size() <= kLength) throw refuse();
  const std::string_view end = std::string_view(name).substr(name.size() - kLength);
  const SplitName split{name.substr(0, name.size() - kLength), digits(end.substr(1, 5)), digits(end.substr(10, 5))};
  if (end[0] != '-' || end.substr(6, 4) != "-of-" || split.number < 1 || split.count < split.number) throw refuse();
  return split;
}

std::string five_digits(int64_t n) {
  const auto text = std::to_string(n);
  return std::string(5 - std::min<size_t>(5, text.size()), '0') + text;
}

int64_t integer_or(const std::map<std::string, GgufValue>& metadata, const std::string& key, int64_t absent) {
  const auto found = metadata.find(key);
  const auto* value = found == metadata.end() ? nullptr : std::get_if<int64_t>(&found->second);
  return value ? *value : absent;
}

}  // namespace

GgufFile::GgufFile(const std::filesystem::path& path) {
  OpenFile named(path);
  auto header = read_gguf_header(named);
  if (integer_or(header.metadata, "split.count", 1) <= 1) {
    files_.push_back(std::move(named));
    metadata_ = std::move(header.metadata);
    tensors_ = std::move(header.tensors);
    return;
  }
  open_split_(path);
}

// All files of the model, in order; the first has the metadata.
void GgufFile::open_split_(const std::filesystem::path& path) {
  const auto split = split_name(path);
  KVC_CHECK(split.count <= kMaxFiles, path.string(), ": ", split.count, " files, at most ", kMaxFiles);
  for (int64_t i = 0; i < split.count; ++i) {
    files_.emplace_back(path.parent_path() /
                        concat(split.stem, "-", five_digits(i + 1), "-of-", five_digits(split.count), ".gguf"));
    auto header = read_gguf_header(files_.back());
    const auto number = integer_or(header.metadata, "split.no", -1);
    const auto count = integer_or(header.metadata, "split.count", -1);
    KVC_CHECK(number == i && count == split.count, files_.back().path(), ": split.no is ", number, " and split.count ",
              count, ", expected ", i, " and ", split.count, " by its name");
    for (auto& [name, tensor] : header.tensors) {
      tensor.file = static_cast<size_t>(i);
      KVC_CHECK(tensors_.emplace(name, std::move(tensor)).second, files_.back().path(), ": tensor ", in_quotes(name),
                " is in an earlier file, too");
    }
    if (i == 0) metadata_ = std::move(header.metadata);
  }
  const auto n_tensors = integer_or(metadata_, "split.tensors.count", static_cast<int64_t>(tensors_.size()));
  KVC_CHECK(n_tensors == static_cast<int64_t>(tensors_.size()), path.string(), ": split.tensors.count is ", n_tensors,
            ", the files hold ", tensors_.size());
}

std::vector<std::string> GgufFile::paths() const {
  std::vector<std::string> paths;
  for (const auto& file : files_) paths.push_back(file.path());
  return paths;
}

const GgufTensor& GgufFile::tensor(const std::string& name) const {
  const auto found = tensors_.find(name);
  KVC_CHECK(found != tensors_.end(), path(), ": no tensor ", in_quotes(name));
  return found->second;
}

void GgufFile::read(const GgufTensor& tensor, int64_t first, int64_t n_bytes, void* out) const {
  KVC_CHECK(first >= 0 && n_bytes >= 0 && n_bytes <= tensor.n_bytes - first, path(), ": bytes ", first, " to ",
            first + n_bytes, " of a tensor of ", tensor.n_bytes);
  files_.at(tensor.file).read(out, n_bytes, tensor.offset + first);
}

void GgufFile::refuse_(const std::string& key, const char* expected) const {
  throw Error(concat(path(), ": key ", in_quotes(key), has(key) ? " is of another type" : " is missing", ", expected ",
                     expected));
}

std::string type_name(const GgufTensor& tensor) {
  if (const auto* block = std::get_if<kernels::BlockType>(&tensor.type)) {
    return std::string(kernels::layout_of(*block).name);
  }
  constexpr const char* kNames[] = {"F32", "F16", "BF16"};
  return kNames[static_cast<size_t>(std::get<FloatType>(tensor.type))];
}

bool is_gguf(const std::filesystem::path& path) { return path.extension() == ".gguf"; }

}  // namespace kvc
