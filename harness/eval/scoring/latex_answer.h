// Answers of mathematics as they are written in LaTeX.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvc {

// What is in the braces of the first or last \boxed{...} or \fbox{...} that is closed; nothing without any. Linear
// time.
std::optional<std::string> boxed(std::string_view text, bool last);

// Whether two answers are one in two notations; symmetric. What latex_form() writes alike is the same, and beyond that:
//   lists      items between commas, "and" and "or" are compared one by one, in their order; a comma is "and" and "or",
//              these are different. A comma in brackets separates, as one that a space follows; else 1,234 is both 1234
//              and a list. 1{,}234, 1,\!234, 1\,234 and 1 234 are 1234.
//   equations  "x =", "f(x) =", "(x, y) =" or "x \in" before an answer may lack on one side; on both it is the same
//   name. units      a text after a value (5 \text{ cm}, 12 \mathrm{cm}^2), %, degrees and signs of currencies may lack
//   on one
//              side; on both they are the same unit (cm and centimeters are). A text with a word that changes the value
//              is no unit: 3 \text{ or less}, 6 \text{ AM}, 5 \text{ million}.
//   words      \text{Even}, \textbf{even} and Even: whatever the case of letters, in words of two letters and more.
//   choices    (A), A), A. and \text{A} are A.
// The rules of Hendrycks et al. 2021 (math_equivalence) are among these, but for equations and units of two kinds. No
// algebra: 2x + 2 is not 2(x + 1), 0.25 not \frac{1}{4} (0.5 is \frac{1}{2}), 2\frac{1}{2} not \frac{5}{2}, 10\% not
// 0.1, {1, 2} not {2, 1}. Answers with uneven braces, or groups deeper than 100, are the same where their text without
// whitespace is. Linear time.
bool is_same_latex(std::string_view answer, std::string_view gold);

}  // namespace kvc
