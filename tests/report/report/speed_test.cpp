// A report of a database as large as an evaluation of a paper.
#include <ctime>

#include "../../store/store/store_fixture.h"
#include "report/report.h"
#include "support/processor_seconds.h"

namespace kvc {
namespace {

class LargeReports : public StoreTest {};

// 100 cells (25 compressors on 4 tasks) of 1,300 samples, 8 rows of bytes each.
constexpr const char* kFill = R"(
  WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99)
  INSERT INTO cell SELECT printf('%016x', i), 'tiny', 'demo/' || (i / 25), '{}', '{}', 'p' || (i % 25), 'x', '{}', '',
    '{}', 4, 1300, i % 25 > 0, 0, 'eval', '{}', '' FROM n;
  INSERT INTO experiment_cell (experiment, cell_key) SELECT 'large', key FROM cell;
  INSERT INTO text VALUES ('t', 'Q: 1 + 1');
  WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 1299)
  INSERT INTO sample (cell_key, sample, status, error, prompt_sha256, generation, gold, n_prompt_tokens,
    n_reused_tokens, n_new_tokens, stop_reason, token_ids_json, kv_bytes, kv_bytes_fp16, paper_bytes, n_encoded_tokens,
    k_error, v_error, peak_weights_bytes, peak_kv_bytes, peak_workspace_bytes, prefill_seconds, encode_seconds,
    attend_seconds, other_seconds, n_prompt_tokens_before)
  SELECT key, i, 'ok', '', 't', ' 2 and so on, ' || i, '2', 100, 0, 50, 'stop', '[1,2,' || rowid_of || ']',
    4000, 16000, 3000, 100, 0.001, 0.001, 1, 1, 1, 0.1, 0.1, 0.1, 0.1, 100
    FROM (SELECT key, unicode(substr(key, 16)) AS rowid_of FROM cell) JOIN n;
  INSERT INTO score SELECT cell_key, sample, 'answer', 0, '2', (sample * 7 + unicode(substr(cell_key, 16))) % 3 > 0 FROM sample;
  INSERT INTO kv_bytes SELECT cell_key, sample, l.value, 0, t.value, 'codes', 500
    FROM sample JOIN json_each('[0,1,2,3]') AS l JOIN json_each('["k","v"]') AS t;
)";

TEST_F(LargeReports, AHundredCellsOf1300SamplesTakeSeconds) {
  {
    auto store = ResultStore::open(path_);
    Transaction transaction(store.database());
    store.database().execute(kFill);
    transaction.commit();
  }
  auto store = ResultStore::open_readonly(path_);
  decltype(make_report(store.database(), {})) made;
  const double seconds = test::processor_seconds([&] { made = make_report(store.database(), {}); });
  EXPECT_LT(seconds, 20);  // 6 s on an idle machine
  EXPECT_EQ(made.n_cells, 100);
  EXPECT_EQ(made.n_samples, 130000);
  EXPECT_EQ(made.n_embedded, 8 * 100);
  EXPECT_LT(made.html.size(), size_t{4} << 20);
  std::printf("%.1f s, %zu KiB\n", seconds, made.html.size() / 1024);
}

}  // namespace
}  // namespace kvc
