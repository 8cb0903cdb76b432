#include "fetch/licence_terms.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <utility>

#include "fetch/file_lock.h"
#include "fetch/wheel.h"
#include "kvc/check.h"
#include "text/files.h"
#include "text/utf8.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSilentTags[] = {"button", "head", "script", "style", "template"};
constexpr std::string_view kInlineTags[] = {"a", "abbr", "b", "code", "em", "i", "span", "strong", "sub", "sup", "u"};

template <size_t n>
bool is_any(std::string_view name, const std::string_view (&of)[n]) {
  return std::find(std::begin(of), std::end(of), name) != std::end(of);
}

// "p" of "p class=x" and of "/p"
std::string_view tag_name(std::string_view tag) {
  if (tag.starts_with('/')) tag.remove_prefix(1);
  return tag.substr(0, tag.find_first_of(" \t\r\n/"));
}

// What stands between & and ; as a character, "" if it is not known.
std::string character_of(std::string_view reference) {
  constexpr std::pair<std::string_view, std::string_view> kNamed[] = {
      {"amp", "&"}, {"apos", "'"}, {"gt", ">"}, {"lt", "<"}, {"nbsp", " "}, {"quot", "\""}, {"#39", "'"}};
  for (const auto& [name, character] : kNamed) {
    if (name == reference) return std::string(character);
  }
  return "";
}

// Text as it is read off a page: blanks are one, blocks are set apart by an empty line.
class PageText {
 public:
  void add(char c) {
    const bool is_blank = static_cast<unsigned char>(c) <= ' ' || c == '\x7f';
    if (is_blank) {
      blank_ = true;
      return;
    }
    if (block_ && !text_.empty()) text_ += "\n\n";
    if (blank_ && !block_) text_ += ' ';
    blank_ = block_ = false;
    text_ += c;
  }
  void end_block() { block_ = true; }
  std::string text() const { return text_ + "\n"; }

 private:
  std::string text_;
  bool blank_ = false, block_ = true;
};

// The tag that begins at html[at], with what is in it if that is no text. -> where it ends
size_t skip_tag(std::string_view html, size_t at, PageText& text) {
  const auto end = html.find('>', at);
  if (end == html.npos) return html.size();
  const auto name = tag_name(html.substr(at + 1, end - at - 1));
  if (!is_any(name, kInlineTags)) text.end_block();
  if (html[at + 1] == '/' || !is_any(name, kSilentTags)) return end;
  const auto closing = html.find(concat("</", name), end);
  return closing == html.npos ? html.size() : std::min(html.find('>', closing), html.size());
}

// The character that html[at] begins to name, or & itself. -> where it ends
size_t add_reference(std::string_view html, size_t at, PageText& text) {
  constexpr size_t kLongest = 8;
  const auto n = html.substr(at, kLongest).find(';');
  const auto character = n == html.npos ? "" : character_of(html.substr(at + 1, n - 1));
  for (const char c : character) text.add(c);
  if (character.empty()) text.add('&');
  return character.empty() ? at : at + n;
}

// The page's <article>, or all of it.
std::string_view article_of(std::string_view html) {
  const auto from = html.find("<article"), to = html.find("</article>");
  return from == html.npos || to == html.npos || to < from ? html : html.substr(from, to - from);
}

// Without U+0080 to U+009F, which terminals obey.
std::string without_controls(const std::string& text) {
  std::string kept;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool control = text[i] == '\xc2' && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (control) ++i;
    if (!control) kept += text[i];
  }
  return kept;
}

std::string accepted_line(const LicenceTerms& terms) { return "SHA-256 " + terms.wheel.content.sha256; }

std::string text_of(const LicenceTerms& terms, const fs::path& folder, const std::vector<std::string>& pip) {
  const auto page = folder / "terms";
  fs::remove(page);
  append_member(download_wheel(terms.wheel, pip, folder / "wheel.part", [](int64_t) {}), terms.wheel, page);
  const auto text = page_text(read_file(page));
  fs::remove_all(folder);
  return text;
}

}  // namespace

std::string page_text(std::string_view html) {
  PageText text;
  html = article_of(html);
  for (size_t at = 0; at < html.size(); ++at) {
    if (html[at] == '<') {
      at = skip_tag(html, at, text);
    } else if (html[at] == '&') {
      at = add_reference(html, at, text);
    } else {
      text.add(html[at]);
    }
  }
  return without_controls(replace_broken_utf8(text.text()));
}

AcceptTerms ask_at_terminal() {
  if (!::isatty(STDIN_FILENO) || !::isatty(STDERR_FILENO)) return {};
  return [](const std::string& question) {
    std::fprintf(stderr, "%s [y/N] ", question.c_str());
    std::string answer;
    std::getline(std::cin, answer);
    return answer == "y" || answer == "Y" || answer == "yes";
  };
}

bool are_accepted(const LicenceTerms& terms, const fs::path& record) {
  return is_file(record) && read_file(record).find(accepted_line(terms)) != std::string::npos;
}

void check_askable(const CatalogModel& model, const AcceptTerms& accept) {
  KVC_CHECK(accept, "model '", model.name, "': its license, the ", model.terms->name, " (", model.terms->url,
            "), was not accepted on this machine: `kvc model get ", model.name,
            " --accept-license` shows and accepts it");
}

void ask_for_terms(const CatalogModel& model, const fs::path& record, const std::vector<std::string>& pip,
                   const AcceptTerms& accept) {
  const auto& terms = *model.terms;
  make_folder(record.parent_path());
  const auto text = text_of(terms, record.string() + ".part", pip);
  std::fprintf(stderr, "%s\nkvc: this is the license of %s, from %s\n", text.c_str(), model.name.c_str(),
               terms.url.c_str());
  KVC_CHECK(accept(concat("kvc: do you accept the ", terms.name, "?")), "model '", model.name, "': the ", terms.name,
            " (", terms.url, ") was not accepted; the model was not fetched");
  write_file(record, concat(terms.name, "\n", terms.url, "\n", accepted_line(terms), "\naccepted\n"));
}

}  // namespace kvc
