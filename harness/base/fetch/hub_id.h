// How a model of the Hugging Face Hub is written: hf:ORG/NAME, or hf:ORG/NAME@REVISION.
#pragma once

#include <string>

namespace kvc {

struct HubId {
  std::string org, name;
  std::string revision = "main";  // a branch, a tag, or a commit

  std::string model() const { return org + "/" + name; }
  std::string written() const { return "hf:" + model() + (revision == "main" ? "" : "@" + revision); }
};

bool is_hub_id(const std::string& as_written);  // begins with hf:

// Throws Error that says the form and what may stand in it.
HubId parse_hub_id(const std::string& as_written);

// Whether it can be the path of a repository's file: letters, digits and any of . _ - /, no step upwards.
bool is_hub_path(const std::string& path);

bool is_commit(const std::string& revision);  // 40 hex digits

}  // namespace kvc
