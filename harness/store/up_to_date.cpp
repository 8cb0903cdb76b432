#include "store/up_to_date.h"

#include "kvc/check.h"

namespace kvc {

void check_up_to_date(Database& db) {
  const auto n = db.integer("SELECT count(*) FROM pragma_table_info('cell') WHERE name = 'scoring_json'");
  KVC_CHECK(n == 1, "results database '", db.path(), "': an earlier kvc wrote it (schema ",
            db.integer("PRAGMA user_version"), "); any `kvc run` into it brings it up to date");
}

}  // namespace kvc
