#include <nlohmann/json.hpp>

#include "analysis/query.h"
#include "exchange/export.h"
#include "kvc/check.h"
#include "render/table.h"
#include "text/files.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

void check_experiment(Database& db, const std::string& experiment) {
  if (experiment == "all") return;
  auto select = db.prepare("SELECT count(*) FROM experiment_cell WHERE experiment = ?");
  select.bind(1, experiment);
  select.step();
  KVC_CHECK(select.integer(0) > 0, "results database '", db.path(), "': there is no experiment '", experiment, "'");
}

std::vector<std::string> cells_of(Database& db, const std::string& experiment) {
  check_experiment(db, experiment);
  auto select = db.prepare(
      "SELECT key FROM cell WHERE ?1 = 'all' OR key IN (SELECT cell_key FROM experiment_cell WHERE experiment = ?1)"
      " ORDER BY model, task, is_lossy, plugin, bits DESC, options_label, key");
  select.bind(1, experiment);
  std::vector<std::string> keys;
  while (select.step()) keys.push_back(select.text(0));
  return keys;
}

constexpr const char* kFlat =
    "SELECT c.model, c.task, c.plugin, c.options_label AS options, c.bits, s.*, score.extractor, score.answer,"
    " score.value AS score"
    " FROM sample AS s JOIN cell AS c ON c.key = s.cell_key"
    " LEFT JOIN score ON score.cell_key = s.cell_key AND score.sample = s.sample AND score.position = 0"
    " WHERE s.cell_key = :key ORDER BY s.sample";

}  // namespace

int64_t export_csv(Database& db, const std::string& experiment, const fs::path& out) {
  const auto keys = cells_of(db, experiment);
  OutputFile file(out);
  int64_t n = 0;
  for (const auto& key : keys) {
    const auto table = experiment_query(db, kFlat, key);
    const auto text = write_csv(table);
    file.write(key == keys.front() ? text : text.substr(text.find("\r\n") + 2));
    n += static_cast<int64_t>(table.rows.size());
  }
  file.commit();
  return n;
}

int64_t export_jsonl(Database& db, const std::string& experiment, const fs::path& out) {
  const auto keys = cells_of(db, experiment);
  OutputFile file(out);
  auto scores = db.prepare(
      "SELECT extractor, answer, value FROM score WHERE cell_key = ? AND sample = ? ORDER BY position, extractor");
  auto prompt = db.prepare("SELECT body FROM text WHERE sha256 = ?");
  int64_t n = 0;
  for (const auto& key : keys) {
    const auto table = experiment_query(db, kFlat, key);
    for (const auto& row : table.rows) {
      Json json = Json::object();
      for (size_t i = 0; i + 3 < row.size(); ++i) {
        std::visit(
            [&](const auto& value) {
              using Value = std::decay_t<decltype(value)>;
              if constexpr (std::is_same_v<Value, std::monostate>) {
                json[table.columns[i].name] = nullptr;
              } else {
                json[table.columns[i].name] = value;
              }
            },
            row[i]);
      }
      prompt.bind(1, json["prompt_sha256"].get<std::string>());
      if (prompt.step()) json["prompt"] = prompt.text(0);
      prompt.reset();
      json["scores"] = Json::object();
      for (scores.bind(1, key).bind(2, json["sample"].get<int64_t>()); scores.step();) {
        Json answer = scores.is_null(1) ? Json(nullptr) : Json(scores.text(1));
        json["scores"][scores.text(0)] = {{"answer", answer}, {"value", scores.real(2)}};
      }
      scores.reset();
      file.write(json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n');
      ++n;
    }
  }
  file.commit();
  return n;
}

}  // namespace kvc
