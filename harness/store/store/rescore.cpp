#include "store/rescore.h"

#include <algorithm>
#include <map>

#include "store/insert_scores.h"

namespace kvc {
namespace {

// The scores of one sample by extractor, and the writing of new ones.
class ScoreWriter {
 public:
  ScoreWriter(Database& db, const std::string& cell_key)
      : select_(db.prepare("SELECT extractor, answer, value FROM score WHERE cell_key = ? AND sample = ?")),
        upsert_(db.prepare("INSERT INTO score VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
                           " position = excluded.position, answer = excluded.answer, value = excluded.value")),
        cell_key_(cell_key) {}

  // How many of `rows` differ from what is there.
  int64_t write(int64_t sample, const std::vector<std::string>& order, std::vector<ScoreRow> rows) {
    const auto before = stored(sample);
    add_buckets(before, rows);
    int64_t n_changed = 0;
    for (const auto& row : rows) {
      const auto old = before.find(row.extractor);
      if (old != before.end() && old->second.answer == row.answer && old->second.value == row.value) continue;
      const auto at = std::find(order.begin(), order.end(), row.extractor);
      upsert_.reset();
      upsert_.bind(1, cell_key_).bind(2, sample).bind(3, row.extractor).bind(4, int64_t{at - order.begin()});
      upsert_.bind(5, row.answer).bind(6, row.value).run();
      ++n_changed;
    }
    return n_changed;
  }

 private:
  // What a sample scores in its buckets ("<extractor>/<bucket>") is what it scores.
  static void add_buckets(const std::map<std::string, ScoreRow>& before, std::vector<ScoreRow>& rows) {
    for (size_t i = 0, n = rows.size(); i < n; ++i) {
      const auto prefix = rows[i].extractor + "/";
      for (auto old = before.lower_bound(prefix); old != before.end() && old->first.starts_with(prefix); ++old) {
        rows.push_back({old->first, rows[i].answer, rows[i].value});
      }
    }
  }

  std::map<std::string, ScoreRow> stored(int64_t sample) {
    std::map<std::string, ScoreRow> rows;
    select_.reset();
    select_.bind(1, cell_key_).bind(2, sample);
    while (select_.step()) {
      const auto answer = select_.is_null(1) ? std::nullopt : std::optional(select_.text(1));
      rows[select_.text(0)] = {select_.text(0), answer, select_.real(2)};
    }
    return rows;
  }

  Statement select_, upsert_;
  const std::string& cell_key_;
};

// The task's extractors stand in their order, those it has no more behind them.
void set_positions(Database& db, const std::string& cell_key, const std::vector<std::string>& order) {
  std::vector<std::string> names = order;
  auto select = db.prepare("SELECT extractor FROM score WHERE cell_key = ? GROUP BY extractor ORDER BY min(position)");
  select.bind(1, cell_key);
  while (select.step()) {
    if (std::find(order.begin(), order.end(), select.text(0)) == order.end()) names.push_back(select.text(0));
  }
  auto update = db.prepare("UPDATE score SET position = ? WHERE cell_key = ? AND extractor = ? AND position <> ?");
  for (size_t i = 0; i < names.size(); ++i) {
    const auto position = static_cast<int64_t>(i);
    update.reset();
    update.bind(1, position).bind(2, cell_key).bind(3, names[i]).bind(4, position).run();
  }
}

std::string scoring_of(Database& db, const std::string& cell_key) {
  auto select = db.prepare("SELECT scoring_json FROM cell WHERE key = ?");
  KVC_CHECK(select.bind(1, cell_key).step(), "results database '", db.path(), "': no cell '", cell_key, "'");
  return select.text(0);
}

void set_scoring(Database& db, const std::string& cell_key, const std::string& scoring_json) {
  db.prepare("UPDATE cell SET scoring_json = ? WHERE key = ?").bind(1, scoring_json).bind(2, cell_key).run();
}

// Samples that have a generation and no scores, or all that have one.
std::vector<int64_t> generated(Database& db, const std::string& cell_key, bool all) {
  auto select = db.prepare(
      "SELECT sample FROM sample WHERE cell_key = ?1 AND ((status = 'ok' AND ?2) OR"
      " (status = 'failed' AND stop_reason <> '')) ORDER BY sample");
  select.bind(1, cell_key).bind(2, int64_t{all});
  std::vector<int64_t> samples;
  while (select.step()) samples.push_back(select.integer(0));
  return samples;
}

// error: empty for a sample that could be scored.
void replace_scores(Database& db, const std::string& cell_key, int64_t sample, const std::vector<ScoreRow>& rows,
                    const std::string& error) {
  db.prepare("DELETE FROM score WHERE cell_key = ? AND sample = ?").bind(1, cell_key).bind(2, sample).run();
  insert_scores(db, cell_key, sample, rows);
  auto update = db.prepare("UPDATE sample SET status = ?, error = ? WHERE cell_key = ? AND sample = ?");
  update.bind(1, std::string(error.empty() ? "ok" : "failed")).bind(2, error).bind(3, cell_key).bind(4, sample).run();
}

}  // namespace

RescoreCounts rescore_cell(Database& db, const std::string& cell_key, const std::vector<std::string>& order,
                           const std::function<std::vector<ScoreRow>(const StoredGeneration&)>& rescore,
                           const std::function<void(int64_t sample, const Error& error)>& report,
                           const std::string& scoring_json) {
  RescoreCounts counts;
  Transaction transaction(db);
  ScoreWriter writer(db, cell_key);
  auto samples = db.prepare("SELECT sample, generation, gold FROM sample WHERE cell_key = ? AND status = 'ok'");
  samples.bind(1, cell_key);
  while (samples.step()) {
    const StoredGeneration stored{samples.integer(0), samples.text(1), samples.text(2)};
    try {
      counts.n_changed += writer.write(stored.sample, order, rescore(stored));
      ++counts.n_samples;
    } catch (const EnvironmentError&) {
      throw;
    } catch (const Error& error) {
      report(stored.sample, error);
      ++counts.n_failed;
    }
  }
  set_positions(db, cell_key, order);
  if (!scoring_json.empty() && counts.n_failed == 0) set_scoring(db, cell_key, scoring_json);
  transaction.commit();
  return counts;
}

RescoreCounts score_anew(Database& db, const std::string& cell_key, const std::string& scoring_json,
                         const std::function<std::vector<ScoreRow>(const StoredGeneration&)>& score,
                         const std::function<void(int64_t sample, const Error& error)>& report) {
  RescoreCounts counts;
  if (scoring_of(db, cell_key) == scoring_json && generated(db, cell_key, false).empty()) return counts;
  Transaction transaction(db);
  counts.is_other = scoring_of(db, cell_key) != scoring_json;
  auto select = db.prepare("SELECT generation, gold FROM sample WHERE cell_key = ? AND sample = ?");
  for (const int64_t sample : generated(db, cell_key, counts.is_other)) {  // now that no other process writes
    select.reset();
    KVC_CHECK(select.bind(1, cell_key).bind(2, sample).step(), "cell ", cell_key, ": no sample ", sample);
    try {
      replace_scores(db, cell_key, sample, score({sample, select.text(0), select.text(1)}), "");
      ++counts.n_samples;
    } catch (const Error& error) {
      const std::string text = error.what();
      replace_scores(db, cell_key, sample, {}, text.substr(0, text.find('\n')));
      report(sample, error);
      ++counts.n_failed;
    }
  }
  set_scoring(db, cell_key, scoring_json);
  transaction.commit();
  return counts;
}

}  // namespace kvc
