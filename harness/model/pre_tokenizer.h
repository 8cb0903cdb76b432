// The pre-tokenizer of tokenizer.json: cuts a normalized text into the pieces that BPE sees one by one.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace kvc {

struct Piece {
  std::string text;
  bool at_start = false;  // begins at the first byte of the whole input
};

// Cuts one piece, and may rewrite it; appends the parts, none of them empty.
using PieceStep = std::function<void(Piece piece, std::vector<Piece>& out)>;

// In the order of their use; none for null. Throws Error on a type that is not supported.
std::vector<PieceStep> parse_pre_tokenizer(const nlohmann::json& value, const std::string& where);

std::vector<Piece> pre_tokenize(Piece text, const std::vector<PieceStep>& steps);

}  // namespace kvc
