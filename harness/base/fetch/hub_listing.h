// What the Hub's API says of a model, checked.
#pragma once

#include <string>

#include "fetch/hub.h"

namespace kvc {

// Of all files those that a model is read from: config, tokenizer, chat template and safetensors, by their exact names.
// Throws Error naming `where`, the field and what is wrong with it: not JSON, no commit, a size or hash that is none,
// no weights among the files.
HubListing read_hub_listing(const std::string& json, const std::string& where);

// The commit, and the one file of that path. Throws likewise, also if it is not listed.
HubListing read_hub_listing_of(const std::string& path, const std::string& json, const std::string& where);

}  // namespace kvc
