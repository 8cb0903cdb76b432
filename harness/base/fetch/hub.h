// Models of the Hugging Face Hub: found in a cache, listed, fetched. A revision that has been resolved to a commit
// stays so; a commit's files never change. What the server sends is hostile until it was checked: only files of known
// names are asked for, and kept if their size and hash are those that the listing gave.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fetch/hub_id.h"

namespace kvc {

struct HubPlaces {
  std::string endpoint = "https://huggingface.co";
  std::string token;             // "": none; for the endpoint alone
  bool offline = false;          // no server is asked
  std::filesystem::path own;     // our cache: ORG--NAME@COMMIT/, refs/ORG--NAME@REVISION
  std::filesystem::path shared;  // Hugging Face's own cache, read alone; may be absent
  int n_tries = 5;               // connections for a file
  std::chrono::milliseconds pause{1000};
};

struct HubModel {
  std::string commit;
  std::filesystem::path folder;
};

// Where it is whole on this machine: in our cache, or in Hugging Face's. Asks no server.
std::optional<HubModel> find_hub_model(const HubId& id, const HubPlaces& places);

// What is whole in our cache, each commit by the id that names it.
std::vector<std::pair<HubId, HubModel>> own_hub_models(const HubPlaces& places);

struct HubFile {
  std::string name;
  int64_t n_bytes = 0;
  std::string sha256;    // of large files
  std::string git_blob;  // of the others
};

struct HubListing {
  std::string commit;
  std::vector<HubFile> files;  // those that a model is read from
  int64_t n_bytes() const;
};

// Asks the server. Throws Error of one line: what it answered and what to do, or what of the answer is not to be had.
HubListing list_hub_model(const HubId& id, const HubPlaces& places);

// Fetches what is missing of the listing and records the revision's commit. on_bytes: how many are there.
HubModel fetch_hub_model(const HubId& id, const HubListing& listing, const HubPlaces& places,
                         const std::function<void(int64_t n_bytes)>& on_bytes);

// The one file of that path, at the revision's commit. One try; throws as above.
HubListing list_hub_file(const HubId& id, const std::string& path, const HubPlaces& places);

// Downloads a listed file. on_bytes: how many are there.
void fetch_hub_file(const HubId& id, const std::string& commit, const HubFile& file, const HubPlaces& places,
                    const std::filesystem::path& to, const std::function<void(int64_t n_bytes)>& on_bytes);

}  // namespace kvc
