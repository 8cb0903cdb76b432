#include "model/model_folder.h"

#include <algorithm>
#include <vector>

#include "kvc/check.h"
#include "text/utf8.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

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

void check_lists(const fs::path& dir, const std::string& name) {
  if (lists(dir, name)) return;
  check_is_folder(dir);
  std::string seen;
  for (const auto& other : names_in(dir)) {
    if (!ends_with_any(other, {".gguf", ".pth", ".nemo", "params.json", "tokenizer.model", "adapter_config.json"})) {
      continue;
    }
    seen = concat("; there is ", in_quotes(other), ", of another format");
    break;
  }
  throw Error(concat(dir.string(), ": no ", name, seen,
                     "; expected a folder in Hugging Face's format: config.json, tokenizer.json, *.safetensors"));
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
