// Answers of mathematics as they are written in LaTeX.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvc {

// What stands in the braces of the first or last \boxed{...} or \fbox{...} that is closed; nothing without any.
std::optional<std::string> boxed(std::string_view text, bool last);

// One writing of answers that differ in layout alone, by the rules of Hendrycks et al. 2021 (math_equivalence): \dfrac
// and \tfrac are \frac, missing braces are set, a/b of integers is \frac{a}{b}, units, degrees, percent and dollar
// signs, \left, \right and blanks are gone, so is a short "x =" in front; and beyond these rules \text{X} is X, a comma
// between groups of three digits is gone, and a full stop at the end. No algebra: 2x + 2 is not 2(x + 1).
std::string normal_latex(std::string_view answer);

}  // namespace kvc
