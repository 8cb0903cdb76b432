// LaTeX of answers as tokens: what TeX reads (a double backslash is one token), in one spelling, without layout.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvc {

struct LatexToken {
  std::string name;          // a character, or a control sequence with its backslash: "x", "{", "\frac"
  bool after_space = false;  // whitespace precedes it, or \, and the like
  bool is_text = false;      // in \text{...}, \mathrm{...} and the like
};
using LatexTokens = std::vector<LatexToken>;

// One name for each thing: \dfrac and \tfrac are \frac, \leq, <= and U+2264 are \le, U+00BD is \frac{1}{2}, degrees of
// any spelling are \degree. Gone are $ and \( as signs of formulas (a $ that pairs with no other is \$), \left and
// sizes, the braces of \text{...} and \boxed{...}, and a full stop at the end or after a letter. A \\ outside of an
// environment is whitespace, or where a command's name follows it, that command, escaped twice. \begin{pmatrix} is one
// token.
LatexTokens latex_tokens(std::string_view text);

bool is_letter(const LatexToken& token);
bool is_digit(const LatexToken& token);
// How the depth of brackets and environments changes at a token: 1, -1 or 0. Braces are no brackets.
int bracket_step(const LatexToken& token);

// Where the run of letters that begins at `at` ends: no whitespace in it, all of it text or none.
size_t end_of_word(const LatexTokens& tokens, size_t at);
std::string letters_of(const LatexTokens& tokens, size_t begin, size_t end);

}  // namespace kvc
