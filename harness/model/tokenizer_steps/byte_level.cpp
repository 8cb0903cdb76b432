#include "tokenizer_steps/byte_level.h"

#include <array>
#include <cstdint>

#include "text/utf8.h"

namespace kvc {
namespace {

constexpr int kEnd = 0x100 + 68;  // one past the alphabet's last code point

struct Alphabet {
  std::array<char32_t, 256> of_byte{};
  std::array<int16_t, kEnd> to_byte{};
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  alphabet.to_byte.fill(-1);
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    const char32_t c = printable ? static_cast<char32_t>(byte) : next++;
    alphabet.of_byte[static_cast<size_t>(byte)] = c;
    alphabet.to_byte[c] = static_cast<int16_t>(byte);
  }
  return alphabet;
}
constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::string bytes_to_alphabet(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char byte : bytes) append_utf8(text, kAlphabet.of_byte[static_cast<unsigned char>(byte)]);
  return text;
}

std::optional<std::string> alphabet_to_bytes(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const auto point = next_code_point(text, at);
    if (point.value >= kEnd || kAlphabet.to_byte[point.value] < 0) return std::nullopt;
    bytes += static_cast<char>(kAlphabet.to_byte[point.value]);
    at += point.n_bytes;
  }
  return bytes;
}

}  // namespace kvc
