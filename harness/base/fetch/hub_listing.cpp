#include "fetch/hub_listing.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "fetch/model_catalog.h"
#include "kvc/check.h"
#include "text/json.h"
#include "text/nearest.h"
#include "text/utf8.h"

namespace kvc {
namespace {

using nlohmann::json;

constexpr size_t kMostFiles = 100'000;
constexpr int64_t kMostSmallBytes = int64_t{512} << 20;  // as the readers of these files

constexpr const char* kSmallFiles[] = {"config.json",
                                       "generation_config.json",
                                       "tokenizer.json",
                                       "tokenizer.model",
                                       "vocab.json",
                                       "merges.txt",
                                       "tokenizer_config.json",
                                       "special_tokens_map.json",
                                       "added_tokens.json",
                                       "chat_template.jinja",
                                       "chat_template.json",
                                       "model.safetensors.index.json"};

bool is_small_file(const std::string& name) {
  return std::any_of(std::begin(kSmallFiles), std::end(kSmallFiles), [&](const char* known) { return name == known; });
}

// model-00001-of-00003.safetensors
bool is_shard(const std::string& name) {
  constexpr std::string_view kForm = "model-#####-of-#####.safetensors";
  if (name.size() != kForm.size()) return false;
  return std::equal(kForm.begin(), kForm.end(), name.begin(),
                    [](char form, char c) { return form == '#' ? c >= '0' && c <= '9' : c == form; });
}

// Neither a path nor another file's name passes.
bool is_wanted(const std::string& name) { return is_small_file(name) || name == "model.safetensors" || is_shard(name); }

std::string text_of(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

bool is_hex(const std::string& text, size_t n) {
  return text.size() == n && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

HubFile read_file_entry(const json& entry, const std::string& where) {
  HubFile file;
  file.name = text_of(entry, "rfilename");
  const auto lfs = entry.find("lfs");
  const bool is_lfs = lfs != entry.end() && lfs->is_object();
  const auto& facts = is_lfs ? *lfs : entry;
  const auto size = facts.find("size");
  const int64_t most = is_small_file(file.name) ? kMostSmallBytes : kMostModelBytes;
  KVC_CHECK(size != facts.end() && size->is_number_integer() && *size >= 0 && *size <= most, where, ": ", file.name,
            ": size is ", size == facts.end() ? "missing" : size->dump().substr(0, 40), ", expected 0 to ", most);
  file.n_bytes = size->get<int64_t>();
  if (is_lfs) file.sha256 = lfs->contains("sha256") ? text_of(*lfs, "sha256") : text_of(*lfs, "oid");
  if (!is_lfs) file.git_blob = text_of(entry, "blobId");
  const auto& hash = is_lfs ? file.sha256 : file.git_blob;
  KVC_CHECK(is_hex(hash, is_lfs ? 64 : 40), where, ": ", file.name, ": ", is_lfs ? "SHA-256" : "blobId", " is ",
            in_quotes(hash), ", expected ", is_lfs ? 64 : 40, " hex digits");
  return file;
}

// The names that a repository without usable weights has instead, not all of many.
std::string some_names(std::vector<std::string> names) {
  constexpr size_t kShown = 8;
  const size_t n = names.size();
  if (n > kShown) names.resize(kShown);
  for (auto& name : names) name = in_quotes(name);
  return join(names) + (n > kShown ? concat(" and ", n - kShown, " more") : "");
}

// One file of weights, or the shards of an index; variants beside them stay where they are.
void choose_weights(std::vector<HubFile>& files) {
  const auto is_single = [](const HubFile& f) { return f.name == "model.safetensors"; };
  if (std::none_of(files.begin(), files.end(), is_single)) return;
  std::erase_if(files, [](const HubFile& f) { return is_shard(f.name) || f.name == "model.safetensors.index.json"; });
}

void check_weights(const HubListing& listing, const std::vector<std::string>& names, const std::string& where) {
  const auto has = [&](const auto& is) {
    return std::any_of(listing.files.begin(), listing.files.end(), [&](const HubFile& f) { return is(f.name); });
  };
  const auto is = [](const char* name) { return [name](const std::string& text) { return text == name; }; };
  const bool sharded = has(is("model.safetensors.index.json")) && has(is_shard);
  KVC_CHECK(has(is("model.safetensors")) || sharded, where, ": no model.safetensors, nor shards with an index: it has ",
            some_names(names));
  KVC_CHECK(has(is("config.json")), where, ": no config.json: it has ", some_names(names));
}

// The files whose names are wanted, and the names of all.
HubListing read_entries(const std::string& text, const std::string& where,
                        const std::function<bool(const std::string& name)>& wanted, std::vector<std::string>& names) {
  const auto answer = try_json(text);
  KVC_CHECK(answer.is_object(), where, ": the answer is no JSON object");
  HubListing listing;
  listing.commit = text_of(answer, "sha");
  KVC_CHECK(is_commit(listing.commit), where, ": sha is ", in_quotes(listing.commit), ", expected 40 hex digits");
  const auto siblings = answer.find("siblings");
  KVC_CHECK(siblings != answer.end() && siblings->is_array() && siblings->size() <= kMostFiles, where,
            ": siblings is no list of at most ", kMostFiles, " files");
  std::set<std::string> taken;
  for (const auto& entry : *siblings) {
    if (!entry.is_object()) continue;
    const auto name = text_of(entry, "rfilename");
    names.push_back(name);
    if (!wanted(name)) continue;
    KVC_CHECK(taken.insert(name).second, where, ": ", name, " is listed twice");
    listing.files.push_back(read_file_entry(entry, where));
  }
  return listing;
}

}  // namespace

HubListing read_hub_listing(const std::string& text, const std::string& where) {
  std::vector<std::string> names;
  auto listing = read_entries(text, where, is_wanted, names);
  choose_weights(listing.files);
  check_weights(listing, names, where);
  KVC_CHECK(listing.n_bytes() <= kMostModelBytes, where, ": ", listing.n_bytes(), " bytes, expected at most ",
            kMostModelBytes);
  return listing;
}

HubListing read_hub_listing_of(const std::string& path, const std::string& text, const std::string& where) {
  std::vector<std::string> names;
  auto listing = read_entries(
      text, where, [&](const std::string& name) { return name == path; }, names);
  KVC_CHECK(!listing.files.empty(), where, ": no ", path, ": it has ", some_names(names));
  return listing;
}

}  // namespace kvc
