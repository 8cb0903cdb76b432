#include "merge/merge_shard.h"

#include <sqlite3.h>

#include "kvc/check.h"
#include "merge/shard.h"
#include "merge/table_merge.h"
#include "text/message.h"
#include "text/nearest.h"

namespace kvc {
namespace {

// What is worth more takes the place of what is worth less: 2 an answer, 1 one that could not be scored, 0 none.
std::string worth(const std::string& r) {
  return concat("(CASE WHEN ", r, ".status = 'ok' THEN 2 ELSE ", r, ".stop_reason <> '' END)");
}

constexpr char kSamples[] =
    " FROM shard.sample AS s LEFT JOIN main.sample AS m ON m.cell_key = s.cell_key"
    " AND m.sample = s.sample WHERE s.cell_key NOT IN (SELECT cell_key FROM temp.refused)";

class Merge {
 public:
  Merge(Database& db, std::string shard) : db_(db), shard_(std::move(shard)) {}

  // Within a transaction.
  ShardCounts run() {
    merge_cells();
    merge_texts();
    for (const char* table : {"external_result", "search", "search_candidate", "search_layer"}) {
      merge_table(table, Compared::kYes, "true");
    }
    merge_rows_of_cells();
    counts_.n_new = db_.integer("SELECT count(*) FROM shard.sample");
    if (!are_all_new()) {
      pair_samples();
      for (const char* table : {"sample", "score", "kv_bytes", "likelihood"}) {
        compare_rows_of_samples(db_, columns_of_table(db_, table, Compared::kYes));
      }
    }
    take_samples();
    merge_attempts();
    merge_table("conflicts", Compared::kNo, "true");
    file_conflicts();
    return std::move(counts_);
  }

 private:
  void insert(const TableColumns& table, const std::string& from, const std::string& conflict) {
    std::vector<std::string> columns;
    for (const auto& column : table.all) columns.push_back("s." + column);
    db_.execute(concat("INSERT INTO main.", table.name, " (", join(table.all), ") SELECT ", join(columns), " ", from,
                       " ON CONFLICT ", conflict));
  }

  void merge_table(const std::string& name, Compared compared, const std::string& which,
                   const std::string& pairs = "true") {
    const auto table = columns_of_table(db_, name, compared);
    find_differences(db_, table,
                     concat("FROM shard.", name, " AS s CROSS JOIN main.", name, " AS m ON ", same_key(table),
                            " WHERE ", which, " AND ", pairs));
    insert(table, concat("FROM shard.", name, " AS s WHERE ", which), "DO NOTHING");
  }

  // A published database leaves texts out that it must not publish: their body is empty, and any other takes its place.
  void merge_texts() {
    merge_table("text", Compared::kYes, "true", "s.body <> '' AND m.body <> ''");
    db_.execute(
        "UPDATE main.text SET body = s.body FROM shard.text AS s"
        " WHERE text.sha256 = s.sha256 AND text.body = '' AND s.body <> ''");
  }

  // Nothing of a cell is taken that the shard describes otherwise: what its rows say would be said of another thing.
  void merge_cells() {
    const auto table = columns_of_table(db_, "cell", Compared::kYes);
    find_differences(db_, table, "FROM shard.cell AS s CROSS JOIN main.cell AS m ON m.key = s.key WHERE true");
    db_.execute("INSERT INTO temp.refused SELECT DISTINCT cell_key FROM temp.found");
    insert(table, "FROM shard.cell AS s WHERE true",
           "(key) DO UPDATE SET n_samples = max(n_samples, excluded.n_samples)"
           " WHERE n_samples < excluded.n_samples");
    counts_.n_cells = db_.integer("SELECT count(*) FROM shard.cell");
  }

  void merge_rows_of_cells() {
    const std::string whole = "s.cell_key NOT IN (SELECT cell_key FROM temp.refused)";
    for (const char* table : {"experiment_cell", "cell_provenance", "timing", "memory", "memory_read", "capacity"}) {
      merge_table(table, Compared::kNo, whole);
    }
    merge_table("stage", Compared::kYes, whole);
    db_.execute(
        "DELETE FROM main.cell_size WHERE error <> '' AND (cell_key, n_tokens) IN"
        " (SELECT cell_key, n_tokens FROM shard.cell_size WHERE error = '')");
    merge_table("cell_size", Compared::kYes, whole, "s.error = '' AND m.error = ''");
    merge_table("probe", Compared::kYes, whole);
    db_.execute("DELETE FROM main.sample WHERE (cell_key, sample) IN (SELECT cell_key, sample FROM shard.probe)");
  }

  // Whether nothing is there of any cell of the shard, as of most shards: asked cell by cell, not row by row.
  bool are_all_new() {
    return db_.integer(
               "SELECT EXISTS (SELECT 1 FROM shard.cell AS s WHERE"
               " EXISTS (SELECT 1 FROM main.sample AS m WHERE m.cell_key = s.key) OR"
               " EXISTS (SELECT 1 FROM main.probe AS p WHERE p.cell_key = s.key) OR"
               " s.key IN (SELECT cell_key FROM temp.refused))") == 0;
  }

  // Into temp.both the samples that both sides have, into temp.taken those that the shard alone has, or has better. Of
  // two failures the error that comes first in the alphabet stays, so that the order of shards does not matter.
  void pair_samples() {
    db_.execute(concat("INSERT INTO temp.both SELECT s.cell_key, s.sample", kSamples, " AND ", worth("s"), " = ",
                       worth("m"), " AND ", worth("s"), " > 0"));
    db_.execute(concat("INSERT INTO temp.taken SELECT s.cell_key, s.sample, m.cell_key IS NOT NULL", kSamples,
                       " AND (m.cell_key IS NULL OR ", worth("s"), " > ", worth("m"), " OR (", worth("s"), " = 0 AND ",
                       worth("m"), " = 0 AND s.error < m.error)) AND NOT EXISTS (SELECT 1 FROM main.probe AS p",
                       " WHERE p.cell_key = s.cell_key AND p.sample = s.sample)"));
    const auto n_taken = db_.integer("SELECT count(*) FROM temp.taken");
    counts_.n_replaced = db_.integer("SELECT ifnull(sum(is_there), 0) FROM temp.taken");
    counts_.n_there = counts_.n_new - n_taken, counts_.n_new = n_taken;
  }

  void take_samples() {
    db_.execute(
        "DELETE FROM main.sample WHERE (cell_key, sample) IN (SELECT cell_key, sample FROM temp.taken WHERE is_there)");
    const bool are_all = counts_.n_there == 0;
    for (const char* name : {"sample", "score", "kv_bytes", "likelihood", "token_likelihood", "stage_time"}) {
      const auto table = columns_of_table(db_, name, Compared::kNo);
      insert(table,
             are_all ? concat("FROM shard.", name, " AS s WHERE true")
                     : concat("FROM temp.taken AS t CROSS JOIN shard.", name,
                              " AS s ON s.cell_key = t.cell_key AND s.sample = t.sample WHERE true"),
             "DO NOTHING");
    }
  }

  // An attempt that went on when it was last merged.
  void merge_attempts() {
    insert(columns_of_table(db_, "attempt", Compared::kNo),
           "FROM shard.attempt AS s WHERE s.cell_key NOT IN (SELECT cell_key FROM temp.refused)",
           "DO UPDATE SET ended_at = max(ended_at, excluded.ended_at), outcome = ifnull(outcome, excluded.outcome)");
  }

  void file_conflicts() {
    counts_.n_conflicts = db_.integer("SELECT count(*) FROM temp.found");
    if (counts_.n_conflicts == 0) return;
    db_.prepare(
           "INSERT INTO main.conflicts SELECT table_name, cell_key, sample, row_key, column_name, ?, other, kept"
           " FROM temp.found WHERE true ON CONFLICT DO NOTHING")
        .bind(1, shard_)
        .run();
    auto select = db_.prepare(
        "SELECT table_name, cell_key, ifnull(plugin, ''), ifnull(task, ''), sample, row_key, column_name, kept, other"
        " FROM temp.found LEFT JOIN main.cell ON key = cell_key ORDER BY 1, 2, 5, 6, 7 LIMIT ?");
    select.bind(1, kMostNamed);
    while (select.step()) {
      counts_.conflicts.push_back({select.text(0), select.text(1), select.text(2), select.text(3), select.integer(4),
                                   select.text(5), select.text(6), select.text(7), select.text(8)});
    }
  }

  Database& db_;
  std::string shard_;
  ShardCounts counts_;
};

void make_temporary_tables(Database& db) {
  db.execute(
      "PRAGMA temp_store = MEMORY;"
      "DROP TABLE IF EXISTS temp.refused; DROP TABLE IF EXISTS temp.both; DROP TABLE IF EXISTS temp.taken;"
      "DROP TABLE IF EXISTS temp.found;"
      "CREATE TEMP TABLE refused (cell_key TEXT PRIMARY KEY) WITHOUT ROWID;"
      "CREATE TEMP TABLE both (cell_key TEXT, sample INTEGER, PRIMARY KEY (cell_key, sample)) WITHOUT ROWID;"
      "CREATE TEMP TABLE taken (cell_key TEXT, sample INTEGER, is_there INTEGER, PRIMARY KEY (cell_key, sample))"
      " WITHOUT ROWID;"
      "CREATE TEMP TABLE found (table_name TEXT, cell_key TEXT, sample INTEGER, row_key TEXT, column_name TEXT,"
      " kept TEXT, other TEXT)");
}

}  // namespace

ShardCounts merge_shard(Database& out, const std::filesystem::path& shard) {
  make_temporary_tables(out);
  const AttachedShard attached(out, shard);
  Transaction transaction(out);
  try {
    auto counts = Merge(out, shard.string()).run();
    transaction.commit();
    return counts;
  } catch (const EnvironmentError&) {
    const bool is_odd = (sqlite3_extended_errcode(out.handle()) & 0xFF) == SQLITE_CONSTRAINT;
    KVC_CHECK(!is_odd, "results database '", shard.string(),
              "': its rows are inconsistent: ", in_one_line(sqlite3_errmsg(out.handle())));
    throw;
  }
}

}  // namespace kvc
