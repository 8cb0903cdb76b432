#include "serve/serve.h"

#include <unistd.h>

namespace kvc {
namespace {

bool can_write(const std::filesystem::path& path) { return access(path.c_str(), W_OK) == 0; }

bool is_immutable(const std::filesystem::path& database) {
  const auto folder = database.has_parent_path() ? database.parent_path() : std::filesystem::path(".");
  return !can_write(database) && !can_write(folder);
}

}  // namespace

std::vector<std::string> serve_command(const ServeOptions& options) {
  std::vector<std::string> words = {options.datasette.string(), "serve"};
  if (is_immutable(options.database)) words.push_back("--immutable");
  words.insert(words.end(),
               {options.database.string(), "--host", "127.0.0.1", "--port", std::to_string(options.port), "--metadata",
                options.metadata.string(), "--plugins-dir", options.plugins.string(), "--setting", "sql_time_limit_ms",
                "10000", "--setting", "max_returned_rows", "10000", "--setting", "default_cache_ttl", "0"});
  if (options.open) words.push_back("--open");
  return words;
}

}  // namespace kvc
