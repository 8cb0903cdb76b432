#include "model/decoder.h"

#include <charconv>

#include "kvc/check.h"
#include "model/byte_level.h"
#include "model/pattern.h"
#include "model/utf8.h"

namespace kvc {
namespace {

using Tokens = std::vector<std::string>;
using Steps = std::vector<TokensStep>;

std::string concatenate(const Tokens& tokens) {
  std::string text;
  for (const auto& token : tokens) text += token;
  return text;
}

size_t total_bytes(const Tokens& tokens) {
  size_t n_bytes = 0;
  for (const auto& token : tokens) n_bytes += token.size();
  return n_bytes;
}

// A token outside of the byte alphabet (an added one with a space, say) stands for itself.
Tokens decode_byte_level(Tokens tokens) {
  std::string bytes;
  for (const auto& token : tokens) bytes += alphabet_to_bytes(token).value_or(token);
  return {replace_broken_utf8(bytes)};
}

// "<0xE2>" -> 0xE2, or -1
int byte_of(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with(">")) return -1;
  int byte = -1;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  return error == std::errc() && end == token.data() + 5 ? byte : -1;
}

// Each run of byte tokens becomes its text, or one U+FFFD a byte where it is not UTF-8.
Tokens decode_byte_fallback(Tokens tokens) {
  Tokens out;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (is_utf8(bytes)) {
      out.push_back(bytes);
    } else {
      out.insert(out.end(), bytes.size(), "\uFFFD");
    }
    bytes.clear();
  };
  for (auto& token : tokens) {
    if (const int byte = byte_of(token); byte >= 0) {
      bytes += static_cast<char>(byte);
    } else {
      flush();
      out.push_back(std::move(token));
    }
  }
  flush();
  return out;
}

std::string strip(std::string_view token, const std::string& sign, int64_t at_start, int64_t at_end) {
  if (sign.empty()) return std::string(token);
  for (int64_t i = 0; i < at_start && token.starts_with(sign); ++i) token.remove_prefix(sign.size());
  for (int64_t i = 0; i < at_end && token.ends_with(sign); ++i) token.remove_suffix(sign.size());
  return std::string(token);
}

void add_strip(const JsonObject& c, Steps& steps) {
  constexpr int64_t kMax = 1 << 20;
  steps.emplace_back([sign = c.text("content"), at_start = c.integer("start", 0, kMax),
                      at_end = c.integer("stop", 0, kMax)](Tokens tokens) {
    for (auto& token : tokens) token = strip(token, sign, at_start, at_end);
    return tokens;
  });
}

void add_replace(const JsonObject& c, Steps& steps) {
  steps.emplace_back([find = parse_pattern(c, "pattern"), content = c.text("content")](Tokens tokens) {
    for (auto& token : tokens) token = replace_all(token, find, content);
    return tokens;
  });
}

// The sign is a space, except those at the start of the first token where the pre-tokenizer puts one there.
void add_metaspace(const JsonObject& c, Steps& steps) {
  const auto sign = c.text("replacement", "\u2581");
  const bool prepends = c.text("prepend_scheme", c.boolean("add_prefix_space", true) ? "always" : "never") != "never";
  steps.emplace_back([regex = TokenizerRegex(TokenizerRegex::escape(sign), c.where()), prepends](Tokens tokens) {
    const FindAll find = [&regex](std::string_view text) { return regex.find_all(text); };
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = replace_all(tokens[i], find, i == 0 && prepends ? "" : " ");
    return tokens;
  });
}

void add_steps(const JsonObject& component, Steps& steps);

struct DecoderRow {
  const char* type;
  void (*add)(const JsonObject&, Steps&);
};
const DecoderRow kRows[] = {
    {"Sequence",
     [](const JsonObject& c, Steps& steps) {
       for (const auto& part : c.array("decoders")) add_steps({part, c.where()}, steps);
     }},
    {"ByteLevel", [](const JsonObject&, Steps& s) { s.emplace_back(decode_byte_level); }},
    {"ByteFallback", [](const JsonObject&, Steps& s) { s.emplace_back(decode_byte_fallback); }},
    {"Fuse",
     [](const JsonObject&, Steps& s) { s.emplace_back([](Tokens tokens) { return Tokens{concatenate(tokens)}; }); }},
    {"Replace", add_replace},
    {"Strip", add_strip},
    {"Metaspace", add_metaspace},
};

void add_steps(const JsonObject& component, Steps& steps) {
  find_component<DecoderRow>(component, kRows).add(component, steps);
}

}  // namespace

std::vector<TokensStep> parse_decoder(const nlohmann::json& value, const std::string& where) {
  Steps steps;
  if (!value.is_null()) {
    add_steps({value, where}, steps);
  } else {
    steps.emplace_back([](Tokens tokens) {
      for (size_t i = 1; i < tokens.size(); ++i) tokens[i].insert(0, 1, ' ');
      return tokens;
    });
  }
  return steps;
}

std::string join_decoded(std::vector<std::string> tokens, const std::vector<TokensStep>& steps) {
  const size_t n_bytes = total_bytes(tokens) + tokens.size();  // a token without text may get a space
  for (const auto& step : steps) {
    tokens = step(std::move(tokens));
    check_growth(n_bytes, total_bytes(tokens));
  }
  return concatenate(tokens);
}

}  // namespace kvc
