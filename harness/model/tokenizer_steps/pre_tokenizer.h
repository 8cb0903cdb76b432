// The pre-tokenizer of tokenizer.json: cuts a normalized text into the pieces that BPE sees one by one.
#pragma once

#include <deque>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace kvc {

struct Piece {
  std::string_view text;
  bool at_start = false;  // begins at the first byte of the whole input
};

class PreTokenizer {
 public:
  // Texts that a step wrote; the pieces look into them.
  using Texts = std::deque<std::string>;
  // Cuts or rewrites all pieces; none of the results is empty.
  using Step = std::function<std::vector<Piece>(std::vector<Piece> pieces, Texts& texts)>;

  // Throws Error on a type that is not supported. Null: the text is one piece.
  static PreTokenizer parse(const nlohmann::json& value, const std::string& where);

  // Whether the last step writes bytes in the byte alphabet. Without that step the pieces are the bytes themselves.
  bool ends_in_byte_alphabet() const { return ends_in_byte_alphabet_; }
  void drop_byte_alphabet();

  // The pieces look into `text.text` and into `texts`.
  std::vector<Piece> cut(Piece text, Texts& texts) const;

 private:
  std::vector<Step> steps_;
  bool ends_in_byte_alphabet_ = false;
};

}  // namespace kvc
