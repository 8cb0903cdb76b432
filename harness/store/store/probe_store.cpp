// Rows of probes, and the answers of full precision that they are held against.
#include <nlohmann/json.hpp>

#include "kvc/check.h"
#include "store/result_store.h"
#include "store/run_store.h"

namespace kvc {

std::set<int64_t> ResultStore::probed_samples(const std::string& cell_key) {
  std::set<int64_t> samples;
  auto select = db_.prepare("SELECT DISTINCT sample FROM probe WHERE cell_key = ?");
  select.bind(1, cell_key);
  while (select.step()) samples.insert(select.integer(0));
  return samples;
}

bool ResultStore::put_probe(const std::string& cell_key, int64_t sample, const std::vector<ProbeRow>& rows) {
  KVC_CHECK(!rows.empty(), "probe of sample ", sample, ": no rows");
  Transaction transaction(db_);
  auto there = db_.prepare("SELECT 1 FROM probe WHERE cell_key = ? AND sample = ? LIMIT 1");
  if (there.bind(1, cell_key).bind(2, sample).step()) return false;
  db_.prepare("DELETE FROM sample WHERE cell_key = ? AND sample = ?").bind(1, cell_key).bind(2, sample).run();
  auto insert = db_.prepare("INSERT INTO probe VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
  for (const auto& row : rows) {
    insert.bind(1, cell_key).bind(2, sample).bind(3, row.measure).bind(4, row.layer).bind(5, row.head);
    insert.bind(6, row.tensor).bind(7, row.step).bind(8, row.value).run();
    insert.reset();
  }
  drop_claim(db_, cell_key, sample);
  transaction.commit();
  return true;
}

std::vector<int64_t> ResultStore::full_precision_answer(const CellRecord& cell, const std::string& generation_json,
                                                        int64_t sample) {
  auto select = db_.prepare(
      "SELECT s.token_ids_json FROM sample AS s JOIN cell AS c ON c.key = s.cell_key"
      " WHERE c.kind = 'eval' AND c.is_lossy = 0 AND c.model_json = ? AND c.task_json = ? AND c.generation_json = ?"
      " AND s.sample = ? AND s.status = 'ok' ORDER BY c.key LIMIT 1");
  select.bind(1, cell.model_json).bind(2, cell.task_json).bind(3, generation_json).bind(4, sample);
  if (!select.step()) return {};
  return nlohmann::json::parse(select.text(0)).get<std::vector<int64_t>>();
}

}  // namespace kvc
