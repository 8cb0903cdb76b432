// The byte alphabet of byte-level BPE: each byte is written as one visible character (GPT-2's table: printable Latin-1
// characters stand for themselves, the other 68 bytes for U+0100 and on, in order).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvc {

// Each byte of `bytes` as its character.
std::string bytes_to_alphabet(std::string_view bytes);

// The bytes that `text` stands for, or nothing where a character is not of the alphabet.
std::optional<std::string> alphabet_to_bytes(std::string_view text);

}  // namespace kvc
