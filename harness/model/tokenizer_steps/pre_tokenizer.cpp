#include "tokenizer_steps/pre_tokenizer.h"

#include <algorithm>

#include "kvc/check.h"
#include "text/characters.h"
#include "text/nearest.h"
#include "text/utf8.h"
#include "tokenizer_steps/byte_level.h"
#include "tokenizer_steps/component.h"

namespace kvc {
namespace {

using PieceStep = PreTokenizer::Step;
using PieceSteps = std::vector<PieceStep>;
using Texts = PreTokenizer::Texts;

enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

// GPT-2's pattern: contractions, words, numbers, other signs, spaces.
constexpr const char* kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct Part {
  size_t begin, end;
  bool is_match;
};

// Matches and the text between them, in order, without empty parts.
std::vector<Part> parts_of(std::string_view text, const FindAll& find, bool invert) {
  std::vector<Part> parts;
  size_t done = 0;
  for (const auto& match : find(text)) {
    if (done < match.begin) parts.push_back({done, match.begin, invert});
    if (match.begin < match.end) parts.push_back({match.begin, match.end, !invert});
    done = match.end;
  }
  if (done < text.size()) parts.push_back({done, text.size(), invert});
  return parts;
}

// Joins each part with the one before it where join(before, part) says so; the flags are those of the single parts.
template <class Join>
std::vector<Part> join_parts(const std::vector<Part>& parts, const Join& join) {
  std::vector<Part> out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0 && join(parts[i - 1].is_match, parts[i].is_match)) {
      out.back().end = parts[i].end;
    } else {
      out.push_back(parts[i]);
    }
  }
  return out;
}

// Of several matches in a row, only the one that touches other text is merged with it.
std::vector<Part> apply_behavior(std::vector<Part> parts, Behavior behavior) {
  switch (behavior) {
    case Behavior::removed:
      std::erase_if(parts, [](const Part& part) { return part.is_match; });
      return parts;
    case Behavior::isolated:
      return parts;
    case Behavior::merged_with_previous:
      return join_parts(parts, [](bool before, bool here) { return !before && here; });
    case Behavior::merged_with_next:
      return join_parts(parts, [](bool before, bool here) { return before && !here; });
    case Behavior::contiguous:
      return join_parts(parts, [](bool before, bool here) { return before == here; });
  }
  return parts;
}

PieceStep split(FindAll find, Behavior behavior, bool invert = false) {
  return [find = std::move(find), behavior, invert](const std::vector<Piece>& pieces, Texts&) {
    std::vector<Piece> out;
    for (const auto& piece : pieces) {
      for (const auto& part : apply_behavior(parts_of(piece.text, find, invert), behavior)) {
        out.push_back({piece.text.substr(part.begin, part.end - part.begin), piece.at_start && part.begin == 0});
      }
    }
    return out;
  };
}

// write(piece, text) appends what the piece becomes.
template <class Write>
PieceStep rewrite(Write write) {
  return [write = std::move(write)](std::vector<Piece> pieces, Texts& texts) {
    size_t n_bytes = 0;
    std::vector<size_t> ends;
    auto& text = texts.emplace_back();
    for (const auto& piece : pieces) n_bytes += piece.text.size();
    text.reserve(2 * n_bytes);
    for (const auto& piece : pieces) {
      write(piece, text);
      ends.push_back(text.size());
    }
    for (size_t i = 0, begin = 0; i < pieces.size(); begin = ends[i++]) {
      pieces[i].text = std::string_view(text).substr(begin, ends[i] - begin);
    }
    return pieces;
  };
}

Behavior parse_behavior(const JsonObject& component) {
  const std::vector<std::string> names = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
  const auto name = component.text("behavior");
  const auto found = std::find(names.begin(), names.end(), name);
  KVC_CHECK(found != names.end(), component.where(), ": behavior is ", in_quotes(name), ", supported: ", join(names));
  return static_cast<Behavior>(found - names.begin());
}

PieceStep write_byte_alphabet() {
  return rewrite([](const Piece& piece, std::string& text) { text += bytes_to_alphabet(piece.text); });
}

void add_byte_level(const JsonObject& c, PieceSteps& steps) {
  if (c.boolean("add_prefix_space", true)) {
    steps.push_back(rewrite([](const Piece& piece, std::string& text) {
      if (piece.text[0] != ' ') text += ' ';
      text += piece.text;
    }));
  }
  if (c.boolean("use_regex", true)) {
    const TokenizerRegex regex(kByteLevelPattern, c.where());
    steps.push_back(split([regex](std::string_view text) { return regex.find_all(text); }, Behavior::isolated));
  }
  steps.push_back(write_byte_alphabet());
}

void add_metaspace(const JsonObject& c, PieceSteps& steps) {
  const auto sign = c.text("replacement", "\u2581");
  const auto scheme = c.text("prepend_scheme", c.boolean("add_prefix_space", true) ? "always" : "never");
  KVC_CHECK(scheme == "always" || scheme == "first" || scheme == "never", c.where(), ": prepend_scheme is ",
            in_quotes(scheme), ", supported: always, first, never");
  steps.push_back(rewrite([sign, scheme, spaces = find_text(" ")](const Piece& piece, std::string& text) {
    const bool wanted = scheme == "always" || (scheme == "first" && piece.at_start);
    if (wanted && piece.text[0] != ' ' && !piece.text.starts_with(sign)) text += sign;
    text += replace_all(piece.text, spaces, sign);
  }));
  if (c.boolean("split", true)) steps.push_back(split(find_text(sign), Behavior::merged_with_next));
}

void add_steps(const JsonObject& component, PieceSteps& steps);

struct PreTokenizerRow {
  const char* type;
  void (*add)(const JsonObject&, PieceSteps&);
};
const PreTokenizerRow kPreTokenizers[] = {
    {"Sequence",
     [](const JsonObject& c, PieceSteps& steps) {
       for (const auto& part : c.array("pretokenizers")) add_steps({part, c.where()}, steps);
     }},
    {"ByteLevel", add_byte_level},
    {"Metaspace", add_metaspace},
    {"Split",
     [](const JsonObject& c, PieceSteps& s) {
       s.push_back(split(parse_pattern(c, "pattern"), parse_behavior(c), c.boolean("invert", false)));
     }},
    {"Digits",
     [](const JsonObject& c, PieceSteps& s) {
       const bool one_by_one = c.boolean("individual_digits", false);
       s.push_back(split(find_characters(is_numeric), one_by_one ? Behavior::isolated : Behavior::contiguous));
     }},
    {"Punctuation",
     [](const JsonObject& c, PieceSteps& s) {
       s.push_back(split(find_characters(is_punctuation), c.has("behavior") ? parse_behavior(c) : Behavior::isolated));
     }},
    {"Whitespace",
     [](const JsonObject& c, PieceSteps& s) {
       const TokenizerRegex words(R"(\w+|[^\w\s]+)", c.where());
       s.push_back(split([words](std::string_view text) { return words.find_all(text); }, Behavior::removed, true));
     }},
    {"WhitespaceSplit",
     [](const JsonObject&, PieceSteps& s) { s.push_back(split(find_characters(is_white_space), Behavior::removed)); }},
    {"CharDelimiterSplit",
     [](const JsonObject& c, PieceSteps& s) { s.push_back(split(find_text(c.text("delimiter")), Behavior::removed)); }},
};

void add_steps(const JsonObject& component, PieceSteps& steps) {
  find_component<PreTokenizerRow>(component, kPreTokenizers).add(component, steps);
}

// Whether the last of the components, all the way down, is ByteLevel.
bool ends_in_byte_level(const JsonObject& component) {
  const auto type = component.text("type");
  if (type != "Sequence") return type == "ByteLevel";
  const auto& parts = component.array("pretokenizers");
  return !parts.empty() && ends_in_byte_level({parts.back(), component.where()});
}

size_t total_bytes(const std::vector<Piece>& pieces) {
  size_t n_bytes = 0;
  for (const auto& piece : pieces) n_bytes += piece.text.size();
  return n_bytes;
}

}  // namespace

PreTokenizer PreTokenizer::parse(const nlohmann::json& value, const std::string& where) {
  PreTokenizer result;
  if (value.is_null()) return result;
  add_steps({value, where}, result.steps_);
  result.ends_in_byte_alphabet_ = ends_in_byte_level({value, where});
  return result;
}

void PreTokenizer::drop_byte_alphabet() {
  KVC_CHECK(ends_in_byte_alphabet_, "pre-tokenizer: there is no byte alphabet to drop");
  steps_.pop_back();
  ends_in_byte_alphabet_ = false;
}

std::vector<Piece> PreTokenizer::cut(Piece text, Texts& texts) const {
  std::vector<Piece> pieces;
  if (!text.text.empty()) pieces.push_back(text);
  for (const auto& step : steps_) {
    pieces = step(std::move(pieces), texts);
    check_growth(text.text.size(), total_bytes(pieces));
  }
  return pieces;
}

}  // namespace kvc
