// From tokens back to text: the decoder of tokenizer.json and that of sentencepiece, as steps that take the tokens'
// texts one by one and pass on what no later token can change. The cost of a token does not grow with the tokens before
// it.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace kvc {

// One step and what it holds back. `out` is appended to.
class DecodeStep {
 public:
  virtual ~DecodeStep() = default;
  virtual void add(std::string token, std::vector<std::string>& out) = 0;
  virtual void finish(std::vector<std::string>& out) {}
};

// Makes the steps of one text, in the order of their use.
using Decoder = std::vector<std::function<std::unique_ptr<DecodeStep>()>>;

// For null, the tokens are joined with spaces. Throws Error on a type that is not supported.
Decoder parse_decoder(const nlohmann::json& value, const std::string& where);

// sentencepiece's: the sign U+2581 is a space. At the start of the text, one is dropped where encoding puts one there,
// and all of them where it removes them. Byte tokens become their text, each byte that is not UTF-8 one U+FFFD.
Decoder sentencepiece_decoder(bool adds_space, bool removes_spaces);

}  // namespace kvc
