// What the caches of a cell hold at given lengths.
#include "store/new_row.h"
#include "store/result_store.h"

namespace kvc {

std::set<int64_t> ResultStore::sizes_of(const std::string& cell_key) {
  std::set<int64_t> lengths;
  auto select = db_.prepare("SELECT n_tokens FROM cell_size WHERE cell_key = ?");
  select.bind(1, cell_key);
  while (select.step()) lengths.insert(select.integer(0));
  return lengths;
}

void ResultStore::put_sizes(const std::string& cell_key, const std::vector<CacheSize>& sizes) {
  Transaction transaction(db_);
  for (const auto& size : sizes) {
    NewRow row("cell_size");
    row.set("cell_key", cell_key).set("n_tokens", size.n_tokens).set("error", size.error);
    CacheSize::visit(size, [&](const char* column, const auto& value) { row.set(column, value); });
    row.insert(db_, "ON CONFLICT DO NOTHING");
  }
  transaction.commit();
}

}  // namespace kvc
