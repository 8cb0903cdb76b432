#include "fetch/hub.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "fetch/download.h"
#include "fetch/file_lock.h"
#include "fetch/hub_listing.h"
#include "kvc/check.h"
#include "text/files.h"
#include "text/json.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

constexpr int kListingTries = 3;  // a user without network waits for them
constexpr int64_t kMostListingBytes = int64_t{64} << 20;

// A revision may hold slashes; neither a file's name nor a segment of an address does.
std::string escaped(const std::string& revision) {
  std::string text;
  for (const char c : revision) text += c == '/' ? std::string("%2F") : std::string(1, c);
  return text;
}

std::string folder_name(const HubId& id) { return id.org + "--" + id.name; }

// A file's first word; "" where it cannot be read.
std::string first_word(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

fs::path ref_file(const HubId& id, const HubPlaces& places) {
  return places.own / "refs" / (folder_name(id) + "@" + escaped(id.revision));
}

fs::path own_folder(const HubId& id, const std::string& commit, const HubPlaces& places) {
  return places.own / (folder_name(id) + "@" + commit);
}

std::optional<HubModel> find_own(const HubId& id, const HubPlaces& places) {
  const auto commit = is_commit(id.revision) ? id.revision : first_word(ref_file(id, places));
  if (!is_commit(commit)) return std::nullopt;
  auto folder = own_folder(id, commit, places);
  if (!fs::is_directory(folder)) return std::nullopt;  // it appears whole
  return HubModel{commit, std::move(folder)};
}

// The shards of an index, or {} where it is no such index.
std::set<std::string> shards_of(const fs::path& index) {
  std::set<std::string> shards;
  const auto json = try_json(read_file(index));
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) return {};
  for (const auto& file : json["weight_map"]) {
    if (file.is_string()) shards.insert(file.get<std::string>());
  }
  return shards;
}

// Hugging Face's cache holds what was asked for, which may be a part.
bool is_whole(const fs::path& folder) {
  const auto has = [&](const std::string& name) { return fs::is_regular_file(folder / name); };
  if (!has("config.json")) return false;
  if (!has("tokenizer.json") && !has("tokenizer.model") && !(has("vocab.json") && has("merges.txt"))) return false;
  if (has("model.safetensors")) return true;
  if (!has("model.safetensors.index.json")) return false;
  const auto shards = shards_of(folder / "model.safetensors.index.json");
  return !shards.empty() && std::all_of(shards.begin(), shards.end(), has);
}

std::optional<HubModel> find_shared(const HubId& id, const HubPlaces& places) {
  if (places.shared.empty()) return std::nullopt;
  const auto folder = places.shared / ("models--" + folder_name(id));
  const auto commit = is_commit(id.revision) ? id.revision : first_word(folder / "refs" / id.revision);
  if (!is_commit(commit)) return std::nullopt;
  auto snapshot = folder / "snapshots" / commit;
  if (!is_whole(snapshot)) return std::nullopt;
  return HubModel{commit, std::move(snapshot)};
}

// What to do about an answer.
std::string advice(long status, const HubId& id, const HubPlaces& places) {
  const auto page = places.endpoint + "/" + id.model();
  switch (status) {
    case 401:
      return places.token.empty() ? "there is no such model, or it is gated or private: for these set HF_TOKEN to a "
                                    "token that may read it"
                                  : "HF_TOKEN is no token that may read this model";
    case 403:
      return concat("the model is gated: accept its terms at ", page,
                    places.token.empty() ? " and set HF_TOKEN" : " with the account of HF_TOKEN");
    case 404:
      return concat("there is no model ", id.model(), " with a revision '", id.revision, "'");
    default:
      return "the Hub refuses the request; try again later";
  }
}

// f(), with an error of the server told as the model's own; hint: what to do where there is no answer.
template <class F>
auto asking(const HubId& id, const HubPlaces& places, const std::string& hint, F f) {
  const auto name = id.written();
  if (places.offline) {
    throw EnvironmentError(
        concat(name, ": not on this machine, and HF_HUB_OFFLINE is set; unset it and run `kvc model get ", name, "`"));
  }
  try {
    return f();
  } catch (const HttpError& e) {
    throw Error(concat(name, ": ", places.endpoint, " answered ", e.status(), ": ", advice(e.status(), id, places)));
  } catch (const EnvironmentError& e) {
    throw EnvironmentError(concat(name, ": ", e.what(), hint));
  } catch (const Error& e) {
    throw Error(concat(name, ": ", e.what()));
  }
}

void write_ref(const fs::path& file, const std::string& commit) {
  make_folder(file.parent_path());
  write_file(file, commit + "\n");
}

bool is_there(const HubFile& file, const fs::path& path) {
  std::error_code none;
  const auto size = fs::file_size(path, none);
  return !none && static_cast<int64_t>(size) == file.n_bytes;  // it was renamed into place after its hash was checked
}

template <class Read>
HubListing ask_for_listing(const HubId& id, const HubPlaces& places, int n_tries, const Read& read) {
  const auto url =
      concat(places.endpoint, "/api/models/", id.model(), "/revision/", escaped(id.revision), "?blobs=true");
  return asking(id, places, "; is there a network? HF_ENDPOINT names another server", [&] {
    auto listing = read(download_text(url, places.token, kMostListingBytes, n_tries, places.pause), url);
    KVC_CHECK(!is_commit(id.revision) || listing.commit == id.revision, url, ": sha is ", listing.commit);
    return listing;
  });
}

void fetch_files(const HubId& id, const HubListing& listing, const HubPlaces& places, const fs::path& folder,
                 const std::function<void(int64_t n_bytes)>& on_bytes) {
  make_folder(folder);
  int64_t before = 0;
  for (const auto& file : listing.files) {
    if (!is_there(file, folder / file.name)) {
      fetch_hub_file(id, listing.commit, file, places, folder / file.name, [&](int64_t n) { on_bytes(before + n); });
    }
    before += file.n_bytes;
    on_bytes(before);
  }
}

}  // namespace

int64_t HubListing::n_bytes() const {
  int64_t n = 0;
  for (const auto& file : files) n += file.n_bytes;
  return n;
}

std::optional<HubModel> find_hub_model(const HubId& id, const HubPlaces& places) {
  auto own = find_own(id, places);
  return own ? own : find_shared(id, places);
}

std::vector<std::pair<HubId, HubModel>> own_hub_models(const HubPlaces& places) {
  std::vector<std::pair<HubId, HubModel>> models;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(places.own, none)) {
    const auto name = entry.path().filename().string();
    const auto line = name.find("--"), at = name.find('@');
    if (line == std::string::npos || at == std::string::npos || !is_commit(name.substr(at + 1))) continue;
    HubId id{name.substr(0, line), name.substr(line + 2, at - line - 2), name.substr(at + 1)};
    auto commit = id.revision;
    models.push_back({std::move(id), {std::move(commit), entry.path()}});
  }
  std::sort(models.begin(), models.end(),
            [](const auto& a, const auto& b) { return a.second.folder < b.second.folder; });
  return models;
}

HubListing list_hub_model(const HubId& id, const HubPlaces& places) {
  return ask_for_listing(id, places, std::min(places.n_tries, kListingTries), read_hub_listing);
}

HubListing list_hub_file(const HubId& id, const std::string& path, const HubPlaces& places) {
  return ask_for_listing(id, places, 1, [&](const std::string& text, const std::string& where) {
    return read_hub_listing_of(path, text, where);
  });
}

void fetch_hub_file(const HubId& id, const std::string& commit, const HubFile& file, const HubPlaces& places,
                    const fs::path& to, const std::function<void(int64_t n_bytes)>& on_bytes) {
  const auto url = concat(places.endpoint, "/", id.model(), "/resolve/", commit, "/", file.name);
  download({url, to, file.n_bytes, file.sha256, file.git_blob, places.token, on_bytes, places.n_tries, places.pause});
}

HubModel fetch_hub_model(const HubId& id, const HubListing& listing, const HubPlaces& places,
                         const std::function<void(int64_t n_bytes)>& on_bytes) {
  const auto folder = own_folder(id, listing.commit, places);
  if (!fs::is_directory(folder)) {  // another revision may be the same commit
    auto unfinished = folder;
    unfinished += ".part";
    asking(id, places, "", [&] {
      fetch_files(id, listing, places, unfinished, on_bytes);
      return true;
    });
    fs::rename(unfinished, folder);
  }
  if (!is_commit(id.revision)) write_ref(ref_file(id, places), listing.commit);
  return {listing.commit, folder};
}

}  // namespace kvc
