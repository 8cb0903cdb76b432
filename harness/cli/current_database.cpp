#include "cli/current_database.h"

#include <cstdio>

#include "report/report.h"
#include "store/result_store.h"

namespace kvc {

std::filesystem::path current_database(const std::filesystem::path& database, TemporaryFolder& folder) {
  auto store = ResultStore::open_readonly(database);
  const auto version = store.database().integer("PRAGMA user_version");
  if (version >= kReportSchema) return database;
  const auto copy = folder.path() / database.filename();
  std::fprintf(stderr,
               "%s: an earlier kvc wrote it (schema %lld); what is shown is a copy as of now, brought up to date\n",
               database.c_str(), static_cast<long long>(version));
  store.database().prepare("VACUUM INTO ?").bind(1, copy.string()).run();
  ResultStore::open(copy);
  return copy;
}

}  // namespace kvc
