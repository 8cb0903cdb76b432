// The program's SQL functions (store/statistics.h) for any other SQLite: `.load libkvc_sqlite`, or what `kvc serve`
// tells Datasette. The numbers are the program's own, since the code is.
#include <sqlite3ext.h>

#include <exception>

#include "store/statistics.h"

SQLITE_EXTENSION_INIT1

extern "C" __attribute__((visibility("default"))) int sqlite3_extension_init(sqlite3* db, char** error,
                                                                             const sqlite3_api_routines* api) {
  SQLITE_EXTENSION_INIT2(api);
  try {
    kvc::register_statistics(db);
  } catch (const std::exception& e) {
    if (error) *error = sqlite3_mprintf("kvc: %s", e.what());
    return SQLITE_ERROR;
  }
  return SQLITE_OK;
}
