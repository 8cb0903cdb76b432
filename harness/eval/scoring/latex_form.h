// One way to write a formula, so that two that differ in layout alone are the same text.
#pragma once

#include <optional>
#include <string>

#include "scoring/latex_tokens.h"

namespace kvc {

// Braces and spaces do not count, scripts are braced (x^2 is x^{2}), \frac12, {1 \over 2} and 1/2 are \frac{1}{2} (what
// precedes the slash is the whole product, what follows it one factor), the sign of a fraction is before it, 1.50
// is 1.5, .5 is 0.5, 0.5 is \frac{1}{2}, 1.5 \cdot 10^{3} is 1500, + before a term without another is gone, and so is
// \cdot between factors that need none. Sums and products keep their order. Nothing where braces are uneven, or groups
// are deeper than 100. Linear time.
std::optional<std::string> latex_form(const LatexTokens& tokens);

}  // namespace kvc
