#include "analysis/answer_notes.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

#include "kvc/check.h"
#include "text/nearest.h"

namespace kvc {
namespace {

constexpr double kMuch = 10;  // points between extractors

constexpr const char* kAnswers = R"(
SELECT
  c.model, c.task, c.plugin, c.options_label, c.is_lossy, c.bits,
  CASE WHEN json_valid(c.generation_json) THEN ifnull(c.generation_json ->> '$.max_new_tokens', 0) ELSE 0 END,
  CASE WHEN json_valid(c.generation_json) THEN ifnull(json_array_length(c.generation_json, '$.stop'), 0) ELSE 0 END,
  count(*), sum(s.stop_reason = 'limit'), sum(s.stop_reason = 'context'), sum(s.stop_reason = 'stop'),
  sum(s.stop_reason = 'eos')
FROM cell AS c
JOIN sample AS s ON s.cell_key = c.key AND s.status = 'ok' AND s.stop_reason NOT IN ('', 'scored')
WHERE c.key = ? AND c.kind = 'eval')";
constexpr const char* kExtractors = R"(
SELECT x.extractor, 100.0 * sum(x.value) / count(*), count(*)
FROM score AS x
JOIN sample AS s ON s.cell_key = x.cell_key AND s.sample = x.sample AND s.status = 'ok'
WHERE x.cell_key = ?
GROUP BY x.extractor
HAVING max(x.value NOT IN (0, 1)) = 0
ORDER BY min(x.position), x.extractor)";

// One cell's answers, counted by what ended them.
struct Answers {
  std::string key, model_label, task, name;
  bool is_lossy = false;
  double bits = 0;
  int64_t limit_tokens = 0, n_stop_strings = 0;
  int64_t n = 0, n_limit = 0, n_context = 0, n_stop = 0, n_eos = 0;
};

struct ExtractorScore {
  std::string name;
  double percent = 0;
  int64_t n = 0;
};

struct Scored {
  Answers answers;
  std::vector<ExtractorScore> scores;
  double gap = 0;  // points between the highest and the lowest
};

std::vector<Answers> read_answers(Database& db, const std::set<std::string>& keys) {
  auto select = db.prepare(kAnswers);
  std::vector<Answers> all;
  for (const auto& key : keys) {
    if (select.bind(1, key).step() && select.integer(8) > 0) {
      const auto options = select.text(3);
      const auto name = concat(select.text(2), options.empty() || options == "defaults" ? "" : " " + options);
      all.push_back({key, select.text(0), select.text(1), name, select.integer(4) != 0, select.real(5),
                     select.integer(6), select.integer(7), select.integer(8), select.integer(9), select.integer(10),
                     select.integer(11), select.integer(12)});
    }
    select.reset();
  }
  return all;
}

// The extractors of all the cell's answers; those of buckets are of some.
std::vector<ExtractorScore> read_scores(Statement& select, const std::string& key) {
  std::vector<ExtractorScore> scores;
  int64_t n_most = 0;
  for (select.bind(1, key); select.step();) {
    scores.push_back({select.text(0), select.real(1), select.integer(2)});
    n_most = std::max(n_most, scores.back().n);
  }
  select.reset();
  std::erase_if(scores,
                [&](const auto& score) { return score.n < n_most || score.name.find('/') != std::string::npos; });
  return scores;
}

// "full on gsm8k/shot5", of several models "qwen, full on ..."
std::string place_of(const Answers& a, bool several_models) {
  const auto model = several_models ? a.model_label.substr(a.model_label.rfind('/') + 1) + ", " : "";
  return concat(" (", model, a.name, " on ", a.task, ")");
}

// By what the note says of them, all that it says it of.
using Notes = std::map<std::string, std::vector<std::string>>;

void note_limit(const Answers& a, const std::string& place, Notes& notes) {
  const int64_t n_ended = a.n_limit + a.n_context;
  if (2 * n_ended <= a.n || a.limit_tokens == 1) return;  // of one token all are
  const char* what = a.n_stop_strings > 0 && a.n_stop == 0   ? "the stop string never occurred: "
                     : a.n_stop_strings == 0 && a.n_eos == 0 ? "no end token occurred: "
                                                             : "most answers did not end by themselves: ";
  const auto where = a.n_limit == 0        ? std::string("the end of the context")
                     : a.limit_tokens == 0 ? std::string("their limit")
                                           : concat(a.limit_tokens, " tokens");
  const char* others = a.n_limit > 0 && a.n_context > 0 ? " or the end of the context" : "";
  notes[what].push_back(concat(n_ended, " of ", a.n, " answers ran to ", where, others, place));
}

void note_gap(const Scored& scored, const std::string& place, int64_t n_others, Notes& notes) {
  std::vector<std::string> parts;
  for (const auto& score : scored.scores) {
    char percent[32];
    std::snprintf(percent, sizeof percent, " %.1f %%", score.percent);
    parts.push_back(score.name + percent);
  }
  notes["extractors disagree on the same answers: "].push_back(
      concat(join(parts), place, n_others > 0 ? concat(" and for ", n_others, " more") : ""));
}

// The cell whose extractors differ most, and of how many they differ much.
std::pair<Scored, int64_t> worst_of(Statement& select, const std::vector<Answers>& cells) {
  std::pair<Scored, int64_t> worst;
  for (const auto& cell : cells) {
    Scored scored{cell, read_scores(select, cell.key)};
    if (scored.scores.empty()) continue;
    const auto [low, high] = std::minmax_element(scored.scores.begin(), scored.scores.end(),
                                                 [](const auto& a, const auto& b) { return a.percent < b.percent; });
    scored.gap = high->percent - low->percent;
    worst.second += scored.gap > kMuch;
    if (scored.gap > worst.first.gap) worst.first = std::move(scored);
  }
  return worst;
}

std::vector<std::string> written(const Notes& notes) {
  constexpr size_t kShown = 8;
  std::vector<std::string> lines;
  for (const auto& [what, places] : notes) {
    const size_t n = std::min(places.size(), kShown);
    const auto more = places.size() > n ? concat("; and ", places.size() - n, " more") : "";
    lines.push_back(concat(what, join({places.begin(), places.begin() + static_cast<std::ptrdiff_t>(n)}, "; "), more));
  }
  return lines;
}

}  // namespace

std::vector<std::string> answer_notes(Database& db, const std::set<std::string>& cell_keys) {
  std::map<std::pair<std::string, std::string>, std::vector<Answers>> by_place;
  std::set<std::string> models;
  for (auto& answers : read_answers(db, cell_keys)) {
    models.insert(answers.model_label);
    by_place[{answers.model_label, answers.task}].push_back(std::move(answers));
  }
  auto select = db.prepare(kExtractors);
  Notes notes;
  for (const auto& [model_and_task, cells] : by_place) {
    const auto rank = [](const Answers& a) { return std::tuple(!a.is_lossy, a.bits, a.n); };
    const auto baseline =
        std::max_element(cells.begin(), cells.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
    note_limit(*baseline, place_of(*baseline, models.size() > 1), notes);
    const auto [worst, n_apart] = worst_of(select, cells);
    if (n_apart > 0) note_gap(worst, place_of(worst.answers, models.size() > 1), n_apart - 1, notes);
  }
  return written(notes);
}

}  // namespace kvc
