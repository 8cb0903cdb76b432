#include "serve/current_database.h"

#include <cstdio>

#include "store/result_store.h"
#include "store/unpacked.h"
#include "store/up_to_date.h"
#include "text/unpack_xz.h"

namespace kvc {

std::filesystem::path current_database(const std::filesystem::path& database, TemporaryFolder& folder) {
  auto file = unpacked(database, folder);
  auto store = ResultStore::open_as_it_is(file);
  if (file == database && !has_current_views(store.database())) {
    file = folder.path() / database.filename();
    store.database().prepare("VACUUM INTO ?").bind(1, file.string()).run();
    ResultStore::open(file);
  }
  if (file != database && !is_xz(database)) {
    std::fprintf(stderr, "%s: written by an earlier kvc (schema %ld); showing an upgraded copy\n", database.c_str(),
                 ResultStore::open_as_it_is(database).database().integer("PRAGMA user_version"));
  }
  return file;
}

}  // namespace kvc
