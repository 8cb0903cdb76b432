// JSON for files that read or write it: the library, its heavy functions compiled once (json.cpp), what other programs
// wrote as JSON, and structs as objects of their fields.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

extern template class nlohmann::basic_json<>;
extern template class nlohmann::detail::serializer<nlohmann::json>;
extern template class nlohmann::detail::parser<nlohmann::json, nlohmann::detail::iterator_input_adapter<const char*>>;
extern template class nlohmann::detail::parser<nlohmann::json,
                                               nlohmann::detail::iterator_input_adapter<std::string::const_iterator>>;

namespace kvc {

// What the library builds it also copies, prints and frees by recursion, so what strangers wrote is looked at first.
constexpr size_t kMaxJsonDepth = 64;

// Throws Error "<where>: error: JSON nested deeper than 64 levels". Whether the text is JSON a parser finds.
void check_json_depth(std::string_view text, const std::string& where);
bool is_shallow_json(std::string_view text);

// The text's value; a discarded one, as the library calls it, where the text is no JSON or nested deeper than that.
template <class Json = nlohmann::json>
Json try_json(std::string_view text) {
  return is_shallow_json(text) ? Json::parse(text, nullptr, false) : Json(Json::value_t::discarded);
}

// NaN, Infinity and -Infinity, which Python's json writes and JSON has not: read as null, and told to the user.
struct NonFinite {
  int64_t n = 0;
  std::string first;  // the path of its field: "results.wikitext.word_perplexity,none"
  // One notice of the file, where there were any.
  void tell(const std::filesystem::path& file) const;
};

// Where a text begins in its file, both from 1.
struct TextPlace {
  int64_t line = 1, column = 1;
};

// One JSON value of a text that another program wrote. Throws Error "<file>:line:column: error: ...".
nlohmann::json parse_text_json(std::string_view text, const std::string& file, TextPlace place, NonFinite& non_finite);

// A file's one value, read as text/text_file.h does; NaN is told.
nlohmann::json read_json_text(const std::filesystem::path& file);

// What Python's str() gives of a string, a number or a boolean ("3.5", "True"); none for other values.
std::optional<std::string> scalar_text(const nlohmann::json& value);

}  // namespace kvc

// In a header; and in one .cpp KVC_DEFINE_JSON(Type, field...): compiled once, other than the library's inline macros.
#define KVC_DECLARE_JSON(Type)                           \
  void to_json(nlohmann::json& json, const Type& value); \
  void from_json(const nlohmann::json& json, Type& value);

#define KVC_DEFINE_JSON(Type, ...)                                               \
  void to_json(nlohmann::json& nlohmann_json_j, const Type& nlohmann_json_t) {   \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_TO, __VA_ARGS__))     \
  }                                                                              \
  void from_json(const nlohmann::json& nlohmann_json_j, Type& nlohmann_json_t) { \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_FROM, __VA_ARGS__))   \
  }
