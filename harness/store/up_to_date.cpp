#include "store/up_to_date.h"

#include "kvc/check.h"

namespace kvc {

// By the column that was added last: who adds one when a file is opened for writing adds all before it.
bool is_up_to_date(Database& db) {
  return db.integer("SELECT count(*) FROM pragma_table_info('cell') WHERE name = 'scoring_json'") == 1;
}

void check_up_to_date(Database& db) {
  KVC_CHECK(is_up_to_date(db), "results database '", db.path(), "': an earlier kvc wrote it (schema ",
            db.integer("PRAGMA user_version"), "); any `kvc run` into it brings it up to date");
}

}  // namespace kvc
