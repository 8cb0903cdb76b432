#include "serve/current_database.h"

#include <cstdio>

#include "store/result_store.h"
#include "store/unpacked.h"
#include "store/up_to_date.h"

namespace kvc {

std::filesystem::path current_database(const std::filesystem::path& database, TemporaryFolder& folder) {
  const auto file = unpacked(database, folder);
  auto store = ResultStore::open_readonly(file);
  if (is_up_to_date(store.database()) && has_current_views(store.database())) return file;
  const auto copy = folder.path() / database.filename();
  std::fprintf(stderr, "%s: written by an earlier kvc (schema %ld); showing an upgraded copy\n", database.c_str(),
               store.database().integer("PRAGMA user_version"));
  store.database().prepare("VACUUM INTO ?").bind(1, copy.string()).run();
  ResultStore::open(copy);
  return copy;
}

}  // namespace kvc
