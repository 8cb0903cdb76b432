#include "analysis/summary_rows.h"

#include "analysis/query.h"
#include "render/table.h"

namespace kvc {
namespace {

// The longest length comes last.
void add_sizes(Database& db, const std::string& experiment, std::vector<SummaryRow>& rows) {
  std::map<std::string, SummaryRow*> by_key;
  for (auto& row : rows) by_key[row.key] = &row;
  auto select = db.prepare(table_sql("sizes"));
  select.bind(1, experiment);
  const auto real = [&](const char* column) {
    const int at = select.column(column);
    return select.is_null(at) ? std::nullopt : std::optional(select.real(at));
  };
  while (select.step()) {
    const auto found = by_key.find(select.text(select.column("cell_key")));
    if (found == by_key.end()) continue;
    auto& row = *found->second;
    const auto percent = real("KV size [%]"), bits = real("bits/value"), encoded = real("compressed [%]");
    if (bits) row.bits_per_number = bits;
    row.formula = select.text(select.column("formula"));
    if (const auto n_tokens = real("tokens"); !n_tokens) {
      if (encoded) row.n_encoded_numbers = *encoded / 200 * row.kv_bytes_fp16;
    } else if (percent) {
      row.size_percent[static_cast<int64_t>(*n_tokens)] = *percent;
    }
  }
}

}  // namespace

std::vector<SummaryRow> read_summary(Database& db, const std::string& experiment) {
  auto select = db.prepare(table_sql("summary"));
  select.bind(1, experiment);
  const auto text = [&](const char* column) { return select.text(select.column(column)); };
  const auto integer = [&](const char* column) { return select.integer(select.column(column)); };
  const auto real = [&](const char* column) { return select.real(select.column(column)); };
  std::vector<SummaryRow> rows;
  while (select.step()) {
    auto& row = rows.emplace_back();
    row.key = text("key"), row.model_label = text("model"), row.plugin = text("plugin"), row.options = text("options");
    row.task = text("task"), row.suspect = text("suspect"), row.variant = text("variant");
    row.chat = text("chat_json"), row.label = text("label");
    row.bits = real("bits");
    row.is_simulated = integer("is_simulated") != 0;
    row.n_samples = integer("n_samples"), row.n_ok = integer("n_ok");
    row.n_failed = integer("n_failed"), row.n_missing = integer("n_missing");
    row.n_not_encoded = integer("n_not_encoded"), row.is_lossy = integer("is_lossy") != 0;
    row.kv_bytes = real("kv_bytes"), row.kv_bytes_fp16 = real("kv_bytes_fp16");
    row.paper_bytes = real("paper_bytes"), row.peak_kv_bytes = real("peak_kv_bytes");
    row.n_new_tokens = real("n_new_tokens"), row.decode_seconds = real("decode_seconds");
    row.n_answers = real("n_answers"), row.n_answer_tokens = real("n_answer_tokens");
    row.n_at_limit = real("n_at_limit"), row.n_in_loop = real("n_in_loop");
    row.extractor = text("extractor");
    row.has_score = !select.is_null(select.column("score_percent"));
    row.measure = text("measure");
    row.score = real("score_percent");
    if (!select.is_null(select.column("low_percent"))) row.interval = {real("low_percent"), real("high_percent")};
  }
  add_sizes(db, experiment, rows);
  return rows;
}

}  // namespace kvc
