#include <charconv>
#include <cmath>

#include "kvc/check.h"
#include "scoring/chinese_words.h"
#include "text/text_file.h"
#include "text/utf8.h"

namespace kvc {
namespace {

constexpr size_t kFirstCapacity = size_t{1} << 20;  // the dictionary has half a million prefixes

uint64_t edge_key(uint32_t node, char32_t c) { return (static_cast<uint64_t>(node) << 21 | c) + 1; }

struct Entry {
  std::string_view word;
  int64_t count = 0;
};

// "word count tag", the tag being optional.
Entry read_entry(std::string_view line, const std::filesystem::path& file, int64_t number) {
  Entry entry;
  const size_t space = line.find(' ');
  const auto rest = space == std::string_view::npos ? std::string_view() : line.substr(space + 1);
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), entry.count);
  const bool is_count = error == std::errc() && (end == rest.data() + rest.size() || *end == ' ') && entry.count >= 0;
  KVC_CHECK(is_count && space > 0, file.string(), ":", number, ":1: error: line ", in_quotes(line),
            ", expected 'word count tag'");
  entry.word = line.substr(0, space);
  return entry;
}

}  // namespace

PrefixDictionary::PrefixDictionary(const std::filesystem::path& file) : edges_(kFirstCapacity), counts_(1) {
  const auto text = read_text(file);
  int64_t number = 0, total = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    auto line = std::string_view(text).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const auto entry = read_entry(line, file, ++number);
    uint32_t node = kRoot;
    for (const char32_t c : to_code_points(entry.word)) node = add_child(node, c);
    counts_[node] = entry.count;  // of two entries of one word the later counts, the total has both
    total += entry.count;
    begin = end + 1;
  }
  KVC_CHECK(total > 0, file.string(), ": error: the dictionary has no words");
  log_total_ = std::log(static_cast<double>(total));
  log_counts_.resize(counts_.size());
  for (size_t i = 0; i < counts_.size(); ++i)
    log_counts_[i] = std::log(static_cast<double>(std::max<int64_t>(counts_[i], 1)));
}

size_t PrefixDictionary::slot(uint64_t key) const {
  size_t at = (key * 0x9E3779B97F4A7C15u) >> 32 & (edges_.size() - 1);
  while (edges_[at].key != 0 && edges_[at].key != key) at = (at + 1) & (edges_.size() - 1);
  return at;
}

uint32_t PrefixDictionary::child(uint32_t node, char32_t c) const { return edges_[slot(edge_key(node, c))].child; }

uint32_t PrefixDictionary::add_child(uint32_t node, char32_t c) {
  const auto key = edge_key(node, c);
  size_t at = slot(key);
  if (edges_[at].key == key) return edges_[at].child;
  if (2 * ++n_edges_ > edges_.size()) {
    grow();
    at = slot(key);
  }
  const auto child = static_cast<uint32_t>(counts_.size());
  edges_[at] = {key, child};
  counts_.push_back(0);
  return child;
}

void PrefixDictionary::grow() {
  auto old = std::move(edges_);
  edges_.assign(2 * old.size(), {});
  for (const auto& edge : old) {
    if (edge.key != 0) edges_[slot(edge.key)] = edge;
  }
}

}  // namespace kvc
