#include <algorithm>

#include "../model/gguf/gguf_writer.h"
#include "target.h"

namespace kvc_fuzz {
namespace {

using namespace kvc::test;
using nlohmann::json;
namespace fs = std::filesystem;

// What tokenizer.ggml.* says, as JSON, for the mutator knows that.
std::vector<json> seeds() {
  const json byte_level = {{"model", "gpt2"},
                           {"pre", "smollm"},
                           {"tokens", {"<s>", "a", "b", "ab", "\u0120", "\u0120a", "1", "[PAD]", " x", "</s>"}},
                           {"token_type", {3, 1, 1, 1, 1, 1, 1, 5, 4, 3}},
                           {"merges", {"a b", "\u0120 a"}},
                           {"bos_token_id", 0},
                           {"eos_token_id", 9},
                           {"add_bos_token", true},
                           {"add_eos_token", true}};
  json pieces = {{"model", "llama"},
                 {"tokens", {"<unk>", "<s>", "\u2581", "a", "b", "ab", "<|user|>", "\u2581a"}},
                 {"token_type", {2, 3, 1, 1, 1, 1, 4, 1}},
                 {"scores", {0.0, 0.0, -3.5, -4.5, -5.5, -1.5, 0.0, -2.5}},
                 {"bos_token_id", 1},
                 {"add_space_prefix", true},
                 {"remove_extra_whitespaces", true}};
  auto with_bytes = pieces;
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
    with_bytes["tokens"].push_back(name);
    with_bytes["token_type"].push_back(6);
    with_bytes["scores"].push_back(-1e9);
  }
  return {byte_level, pieces, with_bytes};
}

GgufValueBytes numbers_of(const json& values) {
  if (std::all_of(values.begin(), values.end(), [](const json& v) { return v.is_number_integer(); })) {
    return numbers(11, values.get<std::vector<int64_t>>());
  }
  return numbers(6, values.get<std::vector<float>>());
}

GgufValueBytes value_of(const json& value) {
  if (value.is_string()) return text(value);
  if (value.is_boolean()) return boolean(value);
  if (value.is_number_integer()) return i64(value);
  if (value.is_number()) return f32(value);
  if (!value.is_array()) return u8(0);
  if (std::all_of(value.begin(), value.end(), [](const json& v) { return v.is_number(); })) return numbers_of(value);
  std::vector<std::string> strings;
  for (const auto& one : value) strings.push_back(one.is_string() ? one.get<std::string>() : one.dump());
  return texts(strings);
}

void write_gguf(const fs::path& dir, std::string bytes, Mutator&) {
  const auto tokenizer = json::parse(bytes, nullptr, false);
  if (tokenizer.is_object()) {
    GgufWriter file;
    file.set("general.architecture", text("phi3"));
    for (const auto& [name, value] : tokenizer.items()) file.set("tokenizer.ggml." + name, value_of(value));
    bytes = file.file();
  }
  write_file(dir / "m.gguf", bytes);
}

}  // namespace

Target gguf_tokenizer_target() {
  return {"gguf_tokenizer",
          3,
          seeds(),
          {"gpt2", "llama", "gpt-2", "llama-bpe", "qwen2", "tokens", "scores", "token_type", "merges", "pre",
           "unknown_token_id", "<0x41>", "\u2581", "\u0120", "a b", "a", "b", "ab", ""},
          [](const fs::path&) {},
          write_gguf,
          [](const fs::path& dir) { read_tokenizer(dir / "m.gguf"); }};
}

}  // namespace kvc_fuzz
