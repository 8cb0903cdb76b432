#include "store/unpacked.h"

#include "kvc/check.h"
#include "store/result_store.h"
#include "text/unpack_xz.h"

namespace kvc {

std::filesystem::path unpacked(const std::filesystem::path& database, TemporaryFolder& folder) {
  if (!is_xz(database)) return database;
  const auto copy = folder.path() / database.stem();
  unpack_xz(database, copy);
  try {
    ResultStore::open(copy);
  } catch (const Error& error) {
    throw Error(concat("in '", database.string(), "': ", error.what()));
  }
  return copy;
}

}  // namespace kvc
