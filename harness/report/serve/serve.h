// `kvc serve`: how Datasette is called for a results database.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kvc {

struct ServeOptions {
  std::filesystem::path database, metadata, plugins, datasette;  // plugins: a folder of Datasette's
  int port = 8001;                                               // 0: any that is free
  bool open = false;                                             // in the browser
};

// The command's words. The file is opened for reading alone; where neither it nor its folder can be written to (so that
// no run can change it, and SQLite could not make the files of its log), as immutable.
std::vector<std::string> serve_command(const ServeOptions& options);

}  // namespace kvc
