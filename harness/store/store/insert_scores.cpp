#include "store/insert_scores.h"

namespace kvc {

void insert_scores(Database& db, const std::string& cell_key, int64_t sample, const std::vector<ScoreRow>& scores) {
  auto insert = db.prepare("INSERT INTO score VALUES (?, ?, ?, ?, ?, ?)");
  for (size_t i = 0; i < scores.size(); ++i) {
    insert.reset();
    insert.bind(1, cell_key).bind(2, sample).bind(3, scores[i].extractor).bind(4, static_cast<int64_t>(i));
    insert.bind(5, scores[i].answer).bind(6, scores[i].value).run();
  }
}

}  // namespace kvc
