// Terms that a user accepts before a model is first downloaded: shown, asked for, and recorded so that it is asked once.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "fetch/model_catalog.h"

namespace kvc {

// Whether the user accepts the terms that were just shown; empty: there is no user to ask.
using AcceptTerms = std::function<bool(const std::string& question)>;

// Asks at the terminal; empty unless standard input and standard error are one.
AcceptTerms ask_at_terminal();

// Whether the record says that this very text was accepted.
bool are_accepted(const LicenceTerms& terms, const std::filesystem::path& record);

// Throws Error in one line with the command that accepts the terms, if there is no user to ask.
void check_askable(const CatalogModel& model, const AcceptTerms& accept);

// Fetches the text with pip, shows it on standard error, asks, and writes the record. Throws Error if it was declined.
void ask_for_terms(const CatalogModel& model, const std::filesystem::path& record, const std::vector<std::string>& pip,
                   const AcceptTerms& accept);

// The text of a web page, of its <article> if it has one: paragraphs with an empty line between them, no control
// characters but line breaks. Plain text without tags stays as it is, except for repeated blanks.
std::string page_text(std::string_view html);

}  // namespace kvc
