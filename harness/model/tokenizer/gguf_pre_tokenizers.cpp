#include <algorithm>
#include <nlohmann/json.hpp>

#include "kvc/check.h"
#include "text/nearest.h"
#include "text/utf8.h"
#include "tokenizer/gguf_tokenizer.h"

namespace kvc {
namespace {

using nlohmann::json;

json byte_level(bool cuts) { return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", cuts}}; }

json sequence(const json& first, const json& second) {
  return {{"type", "Sequence"}, {"pretokenizers", {first, second}}};
}

json gpt2() { return byte_level(true); }

json single_digits() { return sequence({{"type", "Digits"}, {"individual_digits", true}}, byte_level(true)); }

// The expression of Llama 3, with so many digits in a piece.
json words(const std::string& digits) {
  const auto expression = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)" + digits +
                          R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const json split{{"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Isolated"}};
  return sequence(split, byte_level(false));
}

json three_digits() { return words(R"(\p{N}{1,3})"); }
json one_digit() { return words(R"(\p{N})"); }

struct Row {
  const char* name;
  json (*steps)();
  bool is_llama3 = false;  // ignores merges, and begins with BOS
  bool composes = false;   // NFC first: the models' own tokenizers do, llama.cpp does not
};
const Row kRows[] = {
    {"gpt-2", gpt2},
    {"smollm", single_digits},
    {"starcoder", single_digits},
    {"refact", single_digits},
    {"command-r", single_digits, false, true},
    {"codeshell", single_digits},
    {"exaone", single_digits},
    {"llama-bpe", three_digits, true},
    {"llama3", three_digits, true},
    {"llama-v3", three_digits, true},
    {"falcon3", three_digits, true},
    {"dbrx", three_digits},
    {"smaug-bpe", three_digits},
    {"qwen2", one_digit, false, true},
    {"deepseek-r1-qwen", one_digit, false, true},
    {"stablelm2", one_digit},
};

}  // namespace

GgufPreTokenizer read_gguf_pre_tokenizer(const GgufFile& file) {
  const std::string key = "tokenizer.ggml.pre";
  const auto name = file.has(key) ? file.text(key) : "";
  const auto row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.name == name; });
  if (row == std::end(kRows)) {
    std::vector<std::string> names;
    for (const auto& known : kRows) names.emplace_back(known.name);
    throw Error(concat(file.path(), ": ", key, " is ", file.has(key) ? in_quotes(name) : "absent",
                       ", and how text is cut cannot be guessed; supported: ", join(names)));
  }
  const auto normalizer = row->composes ? json{{"type", "NFC"}} : json();
  return {row->steps(), normalizer, row->is_llama3, row->is_llama3};
}

}  // namespace kvc
