#include "analysis/pairs.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "kvc/check.h"
#include "stats/repetition.h"
#include "text/utf8.h"

namespace kvc {
namespace {

struct Answer {
  bool is_scored = false;
  std::string prompt_sha256, gold, stop_reason, extractor;
  std::vector<int64_t> token_ids;
  int64_t n_new_tokens = 0;
  double score = 0;
  bool is_truncated = false;

  bool at_limit() const { return stop_reason == "limit" || stop_reason == "context"; }
};

using Answers = std::map<int64_t, Answer>;  // by sample

std::vector<int64_t> token_ids(const Database& db, const std::string& text) {
  try {
    return nlohmann::json::parse(text).get<std::vector<int64_t>>();
  } catch (const nlohmann::json::exception&) {
    throw Error(concat("results database '", db.path(), "': token_ids_json is ", in_quotes(text),
                       ", expected a list of integers"));
  }
}

Answers read_answers(Database& db, const CellGroup& group, const std::string& task, const std::string& extractor) {
  const auto cell = group.cells.find(task);
  if (cell == group.cells.end()) return {};
  auto select = db.prepare(
      "SELECT s.sample, s.status, s.prompt_sha256, s.gold, s.stop_reason, s.token_ids_json, s.n_new_tokens,"
      "  s.n_prompt_tokens < s.n_prompt_tokens_before, score.extractor, score.value"
      " FROM sample AS s LEFT JOIN score ON score.cell_key = s.cell_key AND score.sample = s.sample"
      "  AND CASE WHEN ?2 = '' THEN score.position = 0 ELSE score.extractor = ?2 END"
      " WHERE s.cell_key = ?1");
  select.bind(1, cell->second).bind(2, extractor);
  Answers answers;
  while (select.step()) {
    auto& answer = answers[select.integer(0)];
    answer.is_scored = select.text(1) == "ok" && !select.is_null(9);
    answer.prompt_sha256 = select.text(2);
    answer.gold = select.text(3);
    answer.stop_reason = select.text(4);
    answer.token_ids = token_ids(db, select.text(5));
    answer.n_new_tokens = select.integer(6);
    answer.is_truncated = select.integer(7) != 0;
    answer.extractor = select.text(8);
    answer.score = select.real(9);
  }
  return answers;
}

std::optional<int64_t> first_difference(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  const auto [at_a, at_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (at_a == a.end() && at_b == b.end()) return std::nullopt;
  return at_a - a.begin();
}

AnswerPair pair_of(const Answer& a, const Answer& b) {
  AnswerPair pair;
  pair.score_a = a.score;
  pair.score_b = b.score;
  pair.n_new_tokens_a = a.n_new_tokens;
  pair.n_new_tokens_b = b.n_new_tokens;
  pair.at_limit_a = a.at_limit();
  pair.at_limit_b = b.at_limit();
  pair.in_loop_a = ends_in_loop(a.token_ids);
  pair.in_loop_b = ends_in_loop(b.token_ids);
  pair.is_truncated = a.is_truncated || b.is_truncated;
  pair.first_difference = first_difference(a.token_ids, b.token_ids);
  return pair;
}

void add_pair(PairedTask& paired, const Answer& a, const Answer& b) {
  if (!a.is_scored || !b.is_scored) {
    ++paired.unpaired.n_failed;
  } else if (a.prompt_sha256 != b.prompt_sha256 || a.gold != b.gold) {
    ++paired.unpaired.n_other_question;
  } else {
    KVC_CHECK(a.extractor == b.extractor, paired.task, ": one is scored by '", a.extractor, "', the other by '",
              b.extractor, "'; name one that both have");
    paired.extractor = a.extractor;
    paired.pairs.push_back(pair_of(a, b));
  }
}

// How the cell's task finds and compares the answers of that score (of its buckets, too); "" where it is no
// extractor's.
std::string scoring_of(Database& db, const std::string& cell_key, const std::string& score) {
  auto select = db.prepare(
      "SELECT e.value FROM cell, json_each(cell.scoring_json, '$.extractors') AS e WHERE cell.key = ?1 AND"
      " (?2 = e.value ->> '$.name' OR substr(?2, 1, length(e.value ->> '$.name') + 1) = e.value ->> '$.name' || '/')");
  return select.bind(1, cell_key).bind(2, score).step() ? select.text(0) : "";
}

// Scores of one name say the same only where both are by the same rules.
void check_scoring(Database& db_a, const std::string& key_a, Database& db_b, const std::string& key_b,
                   const PairedTask& paired) {
  KVC_CHECK(scoring_of(db_a, key_a, paired.extractor) == scoring_of(db_b, key_b, paired.extractor), paired.task,
            ": cells ", key_a.substr(0, 12), " and ", key_b.substr(0, 12),
            " are scored by different extractors named '", paired.extractor,
            "'; `kvc rescore` scores both by the task file as it is");
}

}  // namespace

std::vector<PairedTask> read_pairs(Database& db_a, const CellGroup& a, Database& db_b, const CellGroup& b,
                                   const std::string& extractor) {
  std::set<std::string> tasks;
  for (const auto* group : {&a, &b}) {
    for (const auto& [task, key] : group->cells) tasks.insert(task);
  }
  std::vector<PairedTask> all;
  for (const auto& task : tasks) {
    auto& paired = all.emplace_back();
    paired.task = task;
    const auto from_a = read_answers(db_a, a, task, extractor), from_b = read_answers(db_b, b, task, extractor);
    for (const auto& [sample, answer] : from_a) {
      const auto partner = from_b.find(sample);
      if (partner == from_b.end()) {
        ++paired.unpaired.n_only_a;
      } else {
        add_pair(paired, answer, partner->second);
      }
    }
    for (const auto& [sample, answer] : from_b) paired.unpaired.n_only_b += !from_a.contains(sample);
    if (!paired.pairs.empty()) check_scoring(db_a, a.cells.at(task), db_b, b.cells.at(task), paired);
  }
  return all;
}

}  // namespace kvc
