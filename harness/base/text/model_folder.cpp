#include "text/model_folder.h"

#include <algorithm>
#include <vector>

#include "kvc/check.h"
#include "text/files.h"
#include "text/open_file.h"
#include "text/utf8.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kMaxFileBytes = uintmax_t{512} << 20;  // the largest tokenizers have a tenth of it

// The names in the folder, in order; none where it cannot be read.
std::vector<std::string> names_in(const fs::path& dir) {
  std::vector<std::string> names;
  std::error_code unreadable;
  for (fs::directory_iterator entry(dir, unreadable), end; !unreadable && entry != end; entry.increment(unreadable)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool ends_with_any(const std::string& name, std::initializer_list<const char*> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](const char* ending) { return name.ends_with(ending); });
}

// What a trainer leaves beside the weights
bool is_of_training(const std::string& name) {
  const char* starts[] = {"training_args", "optimizer", "scheduler", "rng_state", "scaler"};
  return std::any_of(std::begin(starts), std::end(starts), [&](const char* start) { return name.starts_with(start); });
}

std::string conversion(const fs::path& dir, const std::string& options) {
  return concat("python3 -c \"from transformers import AutoModelForCausalLM as M; M.from_pretrained('", dir.string(),
                "', dtype='auto'", options, ").save_pretrained('", dir.string(), "')\"");
}

void check_is_folder(const fs::path& dir) {
  std::error_code unreadable;
  KVC_CHECK(fs::is_directory(dir, unreadable), "model '", dir.string(),
            unreadable && unreadable != std::errc::no_such_file_or_directory ? "': " + unreadable.message()
                                                                             : "': no such folder");
}

}  // namespace

bool lists(const fs::path& dir, const std::string& name) {
  std::error_code absent;
  return fs::exists(fs::symlink_status(dir / name, absent));
}

std::string read_model_file(const fs::path& path) {
  std::error_code unreadable;  // reading the file says why
  const auto type = fs::status(path, unreadable).type();
  KVC_CHECK(type == fs::file_type::regular || type == fs::file_type::not_found || type == fs::file_type::none,
            "cannot read '", path.string(), "': not a regular file");
  const auto n_bytes = fs::file_size(path, unreadable);
  KVC_CHECK(unreadable || n_bytes <= kMaxFileBytes, path.string(), ": ", n_bytes, " bytes, at most ", kMaxFileBytes);
  auto bytes = read_file(path);
  KVC_CHECK(!bytes.starts_with(kLfsPointer), path.string(), kIsLfsPointer);
  return bytes;
}

void refuse_missing(const fs::path& dir, const std::string& what) {
  check_is_folder(dir);
  std::string seen;
  for (const auto& name : names_in(dir)) {
    if (!ends_with_any(name, {".gguf", ".pth", ".nemo", "params.json", "adapter_config.json"})) continue;
    seen = concat("; there is ", in_quotes(name), ", of another format");
    break;
  }
  throw Error(concat(dir.string(), ": no ", what, seen));
}

void refuse_missing_weights(const fs::path& dir) {
  check_is_folder(dir);
  const std::string lacks = dir.string() + ": neither model.safetensors nor model.safetensors.index.json is there";
  const auto names = names_in(dir);
  for (const auto& name : names) {
    if (name.ends_with(".gguf")) {
      throw Error(concat(lacks, "; ", in_quotes(name), " is quantized for another program, convert it: ",
                         conversion(dir, ", gguf_file='" + name + "'")));
    }
  }
  for (const auto& name : names) {
    if (!ends_with_any(name, {".bin", ".pt", ".pth", ".ckpt"}) || is_of_training(name)) continue;
    throw Error(concat(lacks, "; ", in_quotes(name),
                       " is a pickle, which may run code and is never opened, convert it: ", conversion(dir, "")));
  }
  for (const auto& name : names) {
    KVC_CHECK(!name.ends_with(".safetensors"), lacks, "; ", in_quotes(name),
              name.starts_with("adapter_") ? " is an adapter, merge it into its model first"
                                           : " is not called so, and no index names it");
  }
  throw Error(lacks);
}

}  // namespace kvc
