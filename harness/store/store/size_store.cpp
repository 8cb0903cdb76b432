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

std::vector<ResultStore::EncodedBytes> ResultStore::encoded_bytes(const std::string& cell_key) {
  std::vector<EncodedBytes> samples;
  auto select = db_.prepare(
      "SELECT n_encoded_numbers, kv_bytes - recent_bytes FROM sample WHERE cell_key = ? AND status = 'ok'"
      " AND n_encoded_numbers > 0 AND recent_bytes IS NOT NULL");
  select.bind(1, cell_key);
  while (select.step()) samples.push_back({select.real(0), select.real(1)});
  return samples;
}

bool ResultStore::has_size(const std::string& cell_key, int64_t n_tokens) {
  if (sizes_of(cell_key).contains(n_tokens)) return true;
  db_.prepare(
         "INSERT INTO cell_size SELECT own.key, s.n_tokens, s.error, s.kv_bytes, s.kv_bytes_fp16, s.recent_bytes,"
         "  s.shared_bytes, s.n_encoded_numbers, s.kv_bytes_engine FROM cell AS own JOIN cell AS c USING (model_json,"
         "  plugin_sha256, options_json) JOIN cell_size AS s ON s.cell_key = c.key"
         " WHERE own.key = ?1 AND s.n_tokens = ?2 ORDER BY c.key LIMIT 1 ON CONFLICT DO NOTHING")
      .bind(1, cell_key)
      .bind(2, n_tokens)
      .run();
  return sizes_of(cell_key).contains(n_tokens);
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
