// Units of an answer: what is left out where one of two answers has none.
#pragma once

#include <string>

#include "scoring/latex_tokens.h"

namespace kvc {

// Takes %, degrees, signs of currencies and the text after a value out of `tokens`, and returns them by one spelling,
// "" for none: "dollar", "centimeter^2". Text of which a word changes the value (or, million, AM) stays.
std::string take_unit(LatexTokens& tokens);

}  // namespace kvc
