#include "store/result_store.h"

#include "kvc/check.h"
#include "store/insert_scores.h"
#include "store/new_row.h"
#include "store/run_store.h"
#include "text/files.h"

namespace kvc {
namespace {

void insert_cell(Database& db, const CellRecord& cell) {
  NewRow row("cell");
  row.set("key", cell.key).set("model", cell.model_label).set("task", cell.task).set("kind", to_string(cell.kind));
  row.set("model_json", cell.model_json).set("task_json", cell.task_json).set("options_json", cell.options_json);
  row.set("generation_json", cell.generation_json).set("scoring_json", cell.scoring_json);
  row.set("plugin", cell.plugin).set("plugin_sha256", cell.plugin_sha256).set("options_label", cell.options_label);
  row.set("bits", cell.bits).set("is_lossy", int64_t{cell.lossy}).set("is_simulated", int64_t{cell.simulated});
  row.set("n_samples", cell.n_samples).set("formula", cell.formula);
  row.insert(db, "ON CONFLICT (key) DO UPDATE SET n_samples = max(n_samples, excluded.n_samples)");
}

void check_same_content(Database& db, const CellRecord& cell) {
  auto same = db.prepare(
      "SELECT 1 FROM cell WHERE key = ? AND model_json = ? AND task_json = ? AND plugin = ? AND plugin_sha256 = ?"
      " AND options_json = ? AND generation_json = ?");
  same.bind(1, cell.key).bind(2, cell.model_json).bind(3, cell.task_json).bind(4, cell.plugin);
  same.bind(5, cell.plugin_sha256).bind(6, cell.options_json).bind(7, cell.generation_json);
  KVC_CHECK(same.step(), "results database '", db.path(), "': cell ", cell.key, " (", cell.plugin, ", ", cell.task,
            ") is there with other content under the same key");
}

std::string put_text(Database& db, const std::string& body) {
  const auto sha256 = sha256_hex(body);
  db.prepare("INSERT INTO text VALUES (?, ?) ON CONFLICT DO NOTHING").bind(1, sha256).bind(2, body).run();
  return sha256;
}

void insert_sample(Database& db, const SampleRecord& s) {
  NewRow row("sample");
  row.set("cell_key", s.cell_key).set("sample", s.sample).set("status", s.status).set("error", s.error);
  row.set("prompt_sha256", put_text(db, s.prompt)).set("generation", s.generation).set("gold", s.gold);
  row.set("stop_reason", s.stop_reason).set("token_ids_json", s.token_ids_json);
  Measurement::visit(s, [&](const char* column, const auto& value) { row.set(column, value); });
  row.insert(db);
}

void insert_bytes(Database& db, const SampleRecord& s) {
  for (const auto& row : s.bytes) {
    auto insert = db.prepare("INSERT INTO kv_bytes VALUES (?, ?, ?, ?, ?, ?, ?)");
    insert.bind(1, s.cell_key).bind(2, s.sample).bind(3, row.layer).bind(4, row.stage).bind(5, row.tensor);
    insert.bind(6, row.kind).bind(7, row.bytes).run();
  }
}

void insert_stage_times(Database& db, const SampleRecord& s) {
  for (const auto& row : s.stages) {
    auto insert = db.prepare("INSERT INTO stage_time VALUES (?, ?, ?, ?, ?)");
    insert.bind(1, s.cell_key).bind(2, s.sample).bind(3, row.stage);
    insert.bind(4, row.encode_seconds).bind(5, row.attend_seconds).run();
  }
}

void insert_likelihood(Database& db, const SampleRecord& s) {
  for (const auto& row : s.likelihood) {
    auto insert = db.prepare("INSERT INTO likelihood VALUES (?, ?, ?, ?, ?, ?, ?)");
    insert.bind(1, s.cell_key).bind(2, s.sample).bind(3, row.position).bind(4, row.n_tokens);
    insert.bind(5, row.nll).bind(6, row.kl).bind(7, row.n_top1_same).run();
  }
}

void insert_tokens(Database& db, const SampleRecord& s) {
  const auto& tokens = s.tokens;
  if (tokens.nll.empty()) return;
  auto insert = db.prepare("INSERT INTO token_likelihood VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
  insert.bind(1, s.cell_key).bind(2, s.sample).bind(3, tokens.position);
  insert.bind(4, static_cast<int64_t>(tokens.nll.size()));
  insert.bind(5, little_endian(tokens.nll)).bind(6, little_endian(tokens.kl)).bind(7, little_endian(tokens.acceptance));
  insert.bind(8, Blob{{tokens.top1_same.begin(), tokens.top1_same.end()}});
  insert.bind(9, nlohmann::json(tokens.texts).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)).run();
}

void insert_stages(Database& db, const CellRecord& cell) {
  for (size_t i = 0; i < cell.stages.size(); ++i) {
    const auto& row = cell.stages[i];
    auto insert = db.prepare("INSERT INTO stage VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING");
    insert.bind(1, cell.key).bind(2, static_cast<int64_t>(i) + 1).bind(3, row.plugin).bind(4, row.plugin_sha256);
    insert.bind(5, row.place).bind(6, row.options_json).run();
  }
}

void put_experiment_cell(Database& db, const CellRecord& cell) {
  if (!cell.label.empty()) {
    auto replaced = db.prepare(
        "UPDATE OR REPLACE experiment_cell SET experiment = ?1 || '@older' WHERE experiment = ?1 AND label = ?2 AND "
        "cell_key <> ?3 AND cell_key IN"
        " (SELECT key FROM cell WHERE model = ?4 AND task = ?5 AND kind = ?6)");
    replaced.bind(1, cell.experiment)
        .bind(2, cell.label)
        .bind(3, cell.key)
        .bind(4, cell.model_label)
        .bind(5, cell.task);
    replaced.bind(6, to_string(cell.kind)).run();
  }
  db.prepare("DELETE FROM experiment_cell WHERE experiment = ? || '@older' AND cell_key = ?")
      .bind(1, cell.experiment)
      .bind(2, cell.key)
      .run();
  auto insert = db.prepare(
      "INSERT INTO experiment_cell (experiment, cell_key, label, position, min_baseline) VALUES (?, ?, ?, ?, ?)"
      " ON CONFLICT (experiment, cell_key) DO UPDATE SET label = excluded.label, position = excluded.position,"
      " min_baseline = excluded.min_baseline");
  insert.bind(1, cell.experiment).bind(2, cell.key).bind(3, cell.label).bind(4, cell.position);
  insert.bind(5, cell.min_baseline).run();
}

bool is_scored_by(Database& db, const std::string& cell_key, const std::string& scoring_json) {
  auto select = db.prepare("SELECT 1 FROM cell WHERE key = ? AND scoring_json <> ?");
  return !select.bind(1, cell_key).bind(2, scoring_json).step();
}

bool is_finished(Database& db, const std::string& cell_key, int64_t sample) {
  auto select = db.prepare(
      "SELECT 1 FROM sample WHERE cell_key = ?1 AND sample = ?2 AND status = 'ok'"
      " UNION ALL SELECT 1 FROM probe WHERE cell_key = ?1 AND sample = ?2 LIMIT 1");
  return select.bind(1, cell_key).bind(2, sample).step();
}

}  // namespace

void ResultStore::put_cell(const CellRecord& cell) {
  KVC_CHECK(!cell.key.empty(), "a cell without a key");
  Transaction transaction(db_);
  insert_cell(db_, cell);
  check_same_content(db_, cell);
  insert_stages(db_, cell);
  put_experiment_cell(db_, cell);
  db_.prepare("INSERT INTO cell_provenance VALUES (?, ?, ?) ON CONFLICT DO NOTHING")
      .bind(1, cell.key)
      .bind(2, sha256_hex(cell.provenance_json))
      .bind(3, cell.provenance_json)
      .run();
  transaction.commit();
}

void ResultStore::put_aside(const std::string& experiment, const std::set<std::string>& keys) {
  Transaction transaction(db_);
  for (const auto& key : keys) {
    db_.prepare(
           "UPDATE OR REPLACE experiment_cell SET experiment = ?1 || '@older' WHERE experiment = ?1 AND cell_key = ?2")
        .bind(1, experiment)
        .bind(2, key)
        .run();
  }
  transaction.commit();
}

std::set<int64_t> ResultStore::finished_samples(const std::string& cell_key) {
  std::set<int64_t> samples;
  auto select = db_.prepare("SELECT sample FROM sample WHERE cell_key = ? AND status = 'ok'");
  select.bind(1, cell_key);
  while (select.step()) samples.insert(select.integer(0));
  return samples;
}

std::set<int64_t> ResultStore::generated_samples(const std::string& cell_key) {
  auto samples = finished_samples(cell_key);
  auto select = db_.prepare("SELECT sample FROM sample WHERE cell_key = ? AND stop_reason <> ''");
  select.bind(1, cell_key);
  while (select.step()) samples.insert(select.integer(0));
  return samples;
}

ResultStore::Put ResultStore::put_sample(const SampleRecord& sample) {
  KVC_CHECK(sample.status == "ok" || sample.status == "failed", "sample ", sample.sample, ": status is '",
            sample.status, "', allowed: ok, failed");
  Transaction transaction(db_);
  if (is_finished(db_, sample.cell_key, sample.sample)) return Put::kIsThere;
  if (sample.status == "ok" && !is_scored_by(db_, sample.cell_key, sample.scoring_json)) return Put::kOtherScoring;
  db_.prepare("DELETE FROM sample WHERE cell_key = ? AND sample = ?")
      .bind(1, sample.cell_key)
      .bind(2, sample.sample)
      .run();
  insert_sample(db_, sample);
  insert_scores(db_, sample.cell_key, sample.sample, sample.scores);
  insert_bytes(db_, sample);
  insert_stage_times(db_, sample);
  insert_likelihood(db_, sample);
  insert_tokens(db_, sample);
  drop_claim(db_, sample.cell_key, sample.sample);
  transaction.commit();
  return Put::kStored;
}

std::optional<CellStatus> ResultStore::cell_status(const std::string& cell_key) {
  auto select = db_.prepare("SELECT n_ok, n_failed, n_missing, suspect FROM v_cell WHERE key = ?");
  if (!select.bind(1, cell_key).step()) return std::nullopt;
  return CellStatus{select.integer(0), select.integer(1), select.integer(2), select.text(3)};
}

}  // namespace kvc
