#include "store/unpacked.h"

#include "kvc/check.h"
#include "store/result_store.h"
#include "store/up_to_date.h"
#include "text/unpack_xz.h"

namespace kvc {
namespace {

void upgrade(const std::filesystem::path& copy, const std::filesystem::path& database) {
  try {
    ResultStore::open(copy);
  } catch (const Error& error) {
    throw Error(concat("in '", database.string(), "': ", error.what()));
  }
}

}  // namespace

std::filesystem::path unpacked(const std::filesystem::path& database, TemporaryFolder& folder) {
  if (!is_xz(database)) {
    return is_up_to_date(ResultStore::open_as_it_is(database).database()) ? database : upgraded_copy(database, folder);
  }
  const auto copy = folder.path() / database.stem();
  unpack_xz(database, copy);
  upgrade(copy, database);
  return copy;
}

std::filesystem::path upgraded_copy(const std::filesystem::path& database, TemporaryFolder& folder) {
  const auto copy = folder.path() / database.filename();
  ResultStore::open_as_it_is(database).database().prepare("VACUUM INTO ?").bind(1, copy.string()).run();
  upgrade(copy, database);
  return copy;
}

}  // namespace kvc
