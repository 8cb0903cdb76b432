#include "serve/current_database.h"

#include <cstdio>

#include "store/result_store.h"
#include "store/unpacked.h"
#include "store/up_to_date.h"
#include "text/unpack_xz.h"

namespace kvc {

std::filesystem::path current_database(const std::filesystem::path& database, TemporaryFolder& folder) {
  auto file = unpacked(database, folder);
  if (file == database && !has_current_views(ResultStore::open_as_it_is(file).database())) {
    file = upgraded_copy(database, folder);
  }
  if (file != database && !is_xz(database)) {
    std::fprintf(stderr, "%s: written by an earlier kvc (schema %ld); showing an upgraded copy\n", database.c_str(),
                 ResultStore::open_as_it_is(database).database().integer("PRAGMA user_version"));
  }
  return file;
}

}  // namespace kvc
