#include "data/drawn_text.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "text/nearest.h"
#include "text/text_file.h"

namespace kvc {
namespace {

constexpr int kMostTries = 10'000;

std::string draw_uuid(Random& random) {
  uint64_t high = random.next(), low = random.next();
  high = (high & ~uint64_t{0xf000}) | 0x4000;                // version 4
  low = (low & ~(uint64_t{3} << 62)) | (uint64_t{2} << 62);  // the variant of RFC 4122
  char text[37];
  std::snprintf(text, sizeof text, "%08lx-%04lx-%04lx-%04lx-%012lx", high >> 32, high >> 16 & 0xffff, high & 0xffff,
                low >> 48, low & 0xffff'ffff'ffffu);
  return text;
}

std::string draw_characters(int64_t n, char first, char n_of_them, Random& random) {
  std::string text;
  for (int64_t i = 0; i < n; ++i) text += static_cast<char>(first + static_cast<char>(random.below(n_of_them)));
  return text;
}

}  // namespace

std::vector<TaskFile> read_task_files(const YamlValue& list) {
  std::vector<TaskFile> files;
  for (const auto& item : list.sequence()) {
    auto map = item.map();
    files.push_back(read_task_file(map, {"task", "data_dir", "prompts"}));
    map.reject_unknown();
  }
  if (files.empty()) list.fail(list.name(), " is empty, expected at least one file");
  return files;
}

std::vector<std::string> read_words(const std::vector<TaskFile>& files, const std::filesystem::path& data_dir) {
  std::set<std::string> words;
  for (const auto& file : files) {
    const auto path = locate(file, data_dir);
    std::istringstream text(read_text(path));
    const auto n_before = words.size();
    for (std::string word; text >> word;) words.insert(word);
    KVC_CHECK(words.size() > n_before, path.string(), ":1:1: error: no words, expected some");
  }
  return {words.begin(), words.end()};
}

DrawnText DrawnText::read(const YamlValue& value) {
  DrawnText drawn;
  drawn.where_ = value.where();
  if (value.is_scalar()) {
    value.choice({"uuids"});
    return drawn;
  }
  auto map = value.map();
  if (const auto digits = map.optional("digits")) {
    drawn.kind_ = Kind::kDigits;
    drawn.n_ = digits->integer(1, 1000);
  } else if (const auto letters = map.optional("letters")) {
    drawn.kind_ = Kind::kLetters;
    drawn.n_ = letters->integer(1, 1000);
  } else {
    drawn.kind_ = Kind::kWords;
    drawn.files_ = read_task_files(map.required("words"));
    drawn.join_ = map.optional_string("join", " ");
  }
  map.reject_unknown();
  return drawn;
}

void DrawnText::load(const std::filesystem::path& data_dir) {
  for (const auto& file : files_) words_.push_back(read_words({file}, data_dir));
}

std::string DrawnText::draw(Random& random) const {
  if (kind_ == Kind::kUuid) return draw_uuid(random);
  if (kind_ == Kind::kLetters) return draw_characters(n_, 'A', 26, random);
  if (kind_ == Kind::kDigits) {
    const auto first = draw_characters(1, '1', 9, random);
    return first + draw_characters(n_ - 1, '0', 10, random);
  }
  std::vector<std::string> words;
  for (const auto& list : words_) words.push_back(list[random.below(list.size())]);
  return join(words, join_);
}

int64_t DrawnText::n_texts() const {
  constexpr double kMost = 1e9;
  if (kind_ == Kind::kUuid) return static_cast<int64_t>(kMost);
  double n = 1;
  for (int64_t i = 0; i < n_ && n < kMost; ++i) n *= kind_ == Kind::kLetters ? 26 : i == 0 ? 9 : 10;
  for (const auto& list : words_) n *= static_cast<double>(list.size());
  return static_cast<int64_t>(std::min(n, kMost));
}

std::string DrawnText::draw_other(Random& random, std::set<std::string>& used) const {
  for (int i = 0; i < kMostTries; ++i) {
    auto text = draw(random);
    if (used.insert(text).second) return text;
  }
  throw Error(concat(where_, ": error: ", used.size(), " different texts are drawn, and no other was found"));
}

std::string fill_template(const Template& parts, const std::vector<std::pair<std::string, std::string>>& values) {
  std::string text;
  for (const auto& part : parts) {
    if (!part.is_variable) {
      text += part.text;
      continue;
    }
    const auto found =
        std::find_if(values.begin(), values.end(), [&](const auto& value) { return value.first == part.text; });
    KVC_CHECK(found != values.end(), "template variable '", part.text, "' has no value");
    text += found->second;
  }
  return text;
}

Template read_template_of(const YamlValue& value, const std::vector<std::string>& needed) {
  auto parts = parse_template(value.string());
  const auto names = [&](const std::string& name) {
    return std::any_of(parts.begin(), parts.end(), [&](const auto& p) { return p.is_variable && p.text == name; });
  };
  for (const auto& part : parts) {
    const bool is_known = !part.is_variable || std::find(needed.begin(), needed.end(), part.text) != needed.end();
    if (!is_known) value.fail(unknown_name("template variable", part.text, needed));
  }
  for (const auto& name : needed) {
    if (!names(name)) value.fail(value.name(), " does not name {", name, "}");
  }
  return parts;
}

}  // namespace kvc
