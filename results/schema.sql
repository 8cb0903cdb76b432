-- The results database, version 7. A cell is one point of an experiment's grid; a sample is one question of its task.
-- Keys are content hashes, so databases merge row by row. Column names include their unit: seconds, bytes, tokens.
-- results/columns.yaml describes every table and column; comments here only add what it does not say.
PRAGMA application_id = 1802920753;  -- 'kvc1'
PRAGMA user_version = 7;

CREATE TABLE text (
  sha256 TEXT NOT NULL PRIMARY KEY,
  body   TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- key: content hash of model, task, data, plugin binary, options, generation settings and kind. Scoring is not part of
-- it, so stored generations can be scored again.
CREATE TABLE cell (
  key             TEXT    NOT NULL PRIMARY KEY,
  model           TEXT    NOT NULL,
  task            TEXT    NOT NULL,
  model_json      TEXT    NOT NULL,
  task_json       TEXT    NOT NULL,
  plugin          TEXT    NOT NULL,
  plugin_sha256   TEXT    NOT NULL,
  options_json    TEXT    NOT NULL,
  options_label   TEXT    NOT NULL,
  generation_json TEXT    NOT NULL,
  bits            REAL    NOT NULL,
  n_samples       INTEGER NOT NULL CHECK (n_samples >= 0),
  is_lossy        INTEGER NOT NULL CHECK (is_lossy IN (0, 1)),
  is_simulated    INTEGER NOT NULL CHECK (is_simulated IN (0, 1)),
  kind            TEXT    NOT NULL DEFAULT 'eval' CHECK (kind IN ('eval', 'probe', 'bench', 'capacity')),
  scoring_json    TEXT    NOT NULL DEFAULT '{}',
  formula         TEXT    NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

CREATE TABLE experiment_cell (
  experiment TEXT    NOT NULL,
  cell_key   TEXT    NOT NULL REFERENCES cell (key) ON DELETE CASCADE,
  label      TEXT    NOT NULL DEFAULT '',
  position   INTEGER NOT NULL DEFAULT 0,
  min_baseline REAL  NOT NULL DEFAULT 0,
  PRIMARY KEY (experiment, cell_key)
) STRICT, WITHOUT ROWID;

CREATE TABLE cell_provenance (
  cell_key        TEXT NOT NULL REFERENCES cell (key) ON DELETE CASCADE,
  sha256          TEXT NOT NULL,
  provenance_json TEXT NOT NULL,
  PRIMARY KEY (cell_key, sha256)
) STRICT, WITHOUT ROWID;

CREATE TABLE sample (
  cell_key             TEXT    NOT NULL REFERENCES cell (key) ON DELETE CASCADE,
  sample               INTEGER NOT NULL,
  status               TEXT    NOT NULL CHECK (status IN ('ok', 'failed')),
  error                TEXT    NOT NULL,
  prompt_sha256        TEXT    NOT NULL REFERENCES text (sha256),
  generation           TEXT    NOT NULL,
  gold                 TEXT    NOT NULL,
  n_prompt_tokens      INTEGER NOT NULL,
  n_reused_tokens      INTEGER NOT NULL,
  n_new_tokens         INTEGER NOT NULL,
  stop_reason          TEXT    NOT NULL,
  token_ids_json       TEXT    NOT NULL,
  kv_bytes             INTEGER NOT NULL,
  kv_bytes_fp16        INTEGER NOT NULL,
  paper_bytes          REAL,
  n_encoded_tokens     INTEGER NOT NULL,
  k_error              REAL,
  v_error              REAL,
  peak_weights_bytes   INTEGER NOT NULL,
  peak_kv_bytes        INTEGER NOT NULL,
  peak_workspace_bytes INTEGER NOT NULL,
  prefill_seconds      REAL    NOT NULL,
  encode_seconds       REAL    NOT NULL,
  attend_seconds       REAL    NOT NULL,
  other_seconds        REAL    NOT NULL,
  n_prompt_tokens_before INTEGER NOT NULL,
  peak_bytes           INTEGER,
  peak_other_bytes     INTEGER,
  n_encoded_numbers    INTEGER,
  recent_bytes         INTEGER,
  kv_bytes_engine      INTEGER,
  PRIMARY KEY (cell_key, sample)
) STRICT, WITHOUT ROWID;

-- From caches filled with synthetic tokens, independent of samples.
CREATE TABLE cell_size (
  cell_key          TEXT    NOT NULL REFERENCES cell (key) ON DELETE CASCADE,
  n_tokens          INTEGER NOT NULL CHECK (n_tokens > 0),
  error             TEXT    NOT NULL,
  kv_bytes          INTEGER,
  kv_bytes_fp16     INTEGER,
  recent_bytes      INTEGER,
  shared_bytes      INTEGER,
  n_encoded_numbers INTEGER,
  kv_bytes_engine   INTEGER,
  PRIMARY KEY (cell_key, n_tokens)
) STRICT, WITHOUT ROWID;

CREATE TABLE score (
  cell_key  TEXT    NOT NULL,
  sample    INTEGER NOT NULL,
  extractor TEXT    NOT NULL,
  position  INTEGER NOT NULL,
  answer    TEXT,
  value     REAL    NOT NULL,
  PRIMARY KEY (cell_key, sample, extractor),
  FOREIGN KEY (cell_key, sample) REFERENCES sample (cell_key, sample) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE kv_bytes (
  cell_key TEXT    NOT NULL,
  sample   INTEGER NOT NULL,
  layer    INTEGER NOT NULL,
  stage    INTEGER NOT NULL,
  tensor   TEXT    NOT NULL CHECK (tensor IN ('k', 'v', 'shared')),
  kind     TEXT    NOT NULL,
  bytes    INTEGER NOT NULL,
  PRIMARY KEY (cell_key, sample, layer, stage, tensor, kind),
  FOREIGN KEY (cell_key, sample) REFERENCES sample (cell_key, sample) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- For tasks that score running text: sums over `block` consecutive scored tokens; the last block of a window may be
-- shorter. kl: from the next-token distribution of the task's reference, whose own cache reads the same tokens.
CREATE TABLE likelihood (
  cell_key    TEXT    NOT NULL,
  sample      INTEGER NOT NULL,
  position    INTEGER NOT NULL,
  n_tokens    INTEGER NOT NULL CHECK (n_tokens > 0),
  nll         REAL    NOT NULL,
  kl          REAL    NOT NULL,
  n_top1_same INTEGER NOT NULL,
  PRIMARY KEY (cell_key, sample, position),
  FOREIGN KEY (cell_key, sample) REFERENCES sample (cell_key, sample) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- The same token by token, a row for each window. nll, kl, acceptance: 32-bit floats, little-endian; top1_same: a byte
-- each. acceptance: the sum of min(p, q) of both next-token distributions.
CREATE TABLE token_likelihood (
  cell_key    TEXT    NOT NULL,
  sample      INTEGER NOT NULL,
  position    INTEGER NOT NULL,
  n_tokens    INTEGER NOT NULL CHECK (n_tokens > 0),
  nll         BLOB    NOT NULL CHECK (length(nll) = 4 * n_tokens),
  kl          BLOB    NOT NULL CHECK (length(kl) = 4 * n_tokens),
  acceptance  BLOB    NOT NULL CHECK (length(acceptance) = 4 * n_tokens),
  top1_same   BLOB    NOT NULL CHECK (length(top1_same) = n_tokens),
  tokens_json TEXT    NOT NULL,
  PRIMARY KEY (cell_key, sample),
  FOREIGN KEY (cell_key, sample) REFERENCES sample (cell_key, sample) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE stage (
  cell_key      TEXT    NOT NULL REFERENCES cell (key) ON DELETE CASCADE,
  stage         INTEGER NOT NULL CHECK (stage >= 1),
  plugin        TEXT    NOT NULL,
  plugin_sha256 TEXT    NOT NULL,
  place         TEXT    NOT NULL,
  options_json  TEXT    NOT NULL,
  PRIMARY KEY (cell_key, stage)
) STRICT, WITHOUT ROWID;

CREATE TABLE stage_time (
  cell_key       TEXT    NOT NULL,
  sample         INTEGER NOT NULL,
  stage          INTEGER NOT NULL,
  encode_seconds REAL    NOT NULL,
  attend_seconds REAL    NOT NULL,
  PRIMARY KEY (cell_key, sample, stage),
  FOREIGN KEY (cell_key, sample) REFERENCES sample (cell_key, sample) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE probe (
  cell_key TEXT    NOT NULL REFERENCES cell (key) ON DELETE CASCADE,
  sample   INTEGER NOT NULL,
  measure  TEXT    NOT NULL,
  layer    INTEGER NOT NULL,
  head     INTEGER NOT NULL,
  tensor   TEXT    NOT NULL,
  step     INTEGER NOT NULL,
  value    REAL,
  PRIMARY KEY (cell_key, sample, measure, layer, head, tensor, step)
) STRICT, WITHOUT ROWID;

-- Times of a bench's warm repeats. 'total' is the sum of the other phases, 'all' the sum of a phase's parts.
CREATE TABLE timing (
  cell_key        TEXT    NOT NULL REFERENCES cell (key) ON DELETE CASCADE,
  repeat          INTEGER NOT NULL,
  phase           TEXT    NOT NULL CHECK (phase IN ('prefill', 'encode', 'attend', 'other', 'total')),
  part            TEXT    NOT NULL,
  n_prompt_tokens INTEGER NOT NULL,
  n_new_tokens    INTEGER NOT NULL,
  batch           INTEGER NOT NULL,
  seconds         REAL    NOT NULL,
  PRIMARY KEY (cell_key, n_prompt_tokens, n_new_tokens, batch, repeat, phase, part)
) STRICT, WITHOUT ROWID;

CREATE TABLE memory (
  cell_key        TEXT    NOT NULL REFERENCES cell (key) ON DELETE CASCADE,
  n_prompt_tokens INTEGER NOT NULL,
  n_new_tokens    INTEGER NOT NULL,
  batch           INTEGER NOT NULL,
  repeat          INTEGER NOT NULL,
  part            TEXT    NOT NULL CHECK (part IN ('weights', 'kv', 'workspace', 'other', 'peak')),
  bytes           INTEGER NOT NULL,
  PRIMARY KEY (cell_key, n_prompt_tokens, n_new_tokens, batch, repeat, part)
) STRICT, WITHOUT ROWID;

-- Read bandwidth of a bench's threads immediately after a repeat, over as many bytes as its caches have at the end.
CREATE TABLE memory_read (
  cell_key        TEXT    NOT NULL REFERENCES cell (key) ON DELETE CASCADE,
  n_prompt_tokens INTEGER NOT NULL,
  n_new_tokens    INTEGER NOT NULL,
  batch           INTEGER NOT NULL,
  repeat          INTEGER NOT NULL,
  bytes           INTEGER NOT NULL,
  seconds         REAL    NOT NULL,
  PRIMARY KEY (cell_key, n_prompt_tokens, n_new_tokens, batch, repeat)
) STRICT, WITHOUT ROWID;

CREATE TABLE capacity (
  cell_key    TEXT    NOT NULL REFERENCES cell (key) ON DELETE CASCADE,
  kind        TEXT    NOT NULL CHECK (kind IN ('max_batch', 'max_context')),
  how         TEXT    NOT NULL CHECK (how IN ('computed', 'tried')),
  limit_bytes INTEGER NOT NULL,
  n_tokens    INTEGER NOT NULL,
  value       INTEGER NOT NULL,
  PRIMARY KEY (cell_key, kind, how, limit_bytes, n_tokens)
) STRICT, WITHOUT ROWID;

-- One row per run that is in progress or died; a run deletes its row when it ends. place: boot and process namespace,
-- within which pid and process_start (clock ticks since boot) identify a process. Times are seconds since 1970.
CREATE TABLE run (
  id                INTEGER NOT NULL PRIMARY KEY,
  experiment        TEXT    NOT NULL,
  host              TEXT    NOT NULL,
  place             TEXT    NOT NULL,
  pid               INTEGER NOT NULL,
  process_start     INTEGER NOT NULL,
  started_at        REAL    NOT NULL,
  seen_at           REAL    NOT NULL,
  n_done            INTEGER NOT NULL,
  n_failed          INTEGER NOT NULL,
  n_total           INTEGER NOT NULL,
  tokens_per_second REAL,
  seconds_left      REAL,
  doing             TEXT    NOT NULL
) STRICT;

-- Work claimed by a run; a stored or failed sample deletes its claim. sample: -1 for a cell's sizes.
CREATE TABLE claim (
  cell_key TEXT    NOT NULL,
  sample   INTEGER NOT NULL,
  run_id   INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
  PRIMARY KEY (cell_key, sample)
) STRICT, WITHOUT ROWID;

-- One row each time a run starts to work on a cell. ended_at: when it last stored a result of the cell, or ended.
CREATE TABLE attempt (
  cell_key   TEXT    NOT NULL REFERENCES cell (key) ON DELETE CASCADE,
  started_at REAL    NOT NULL,
  host       TEXT    NOT NULL,
  pid        INTEGER NOT NULL,
  device     TEXT    NOT NULL,
  ended_at   REAL    NOT NULL,
  outcome    TEXT    CHECK (outcome IN ('ended', 'interrupted', 'error')),
  PRIMARY KEY (cell_key, started_at, host, pid)
) STRICT, WITHOUT ROWID;

-- Rows of a shard that disagree with rows in the database, found by `kvc merge`; the existing rows are kept.
CREATE TABLE conflicts (
  table_name  TEXT    NOT NULL,
  cell_key    TEXT    NOT NULL,
  sample      INTEGER NOT NULL,
  row_key     TEXT    NOT NULL,
  column_name TEXT    NOT NULL,
  shard       TEXT    NOT NULL,
  other       TEXT    NOT NULL,
  kept        TEXT    NOT NULL,
  PRIMARY KEY (table_name, cell_key, sample, row_key, column_name, shard, other)
) STRICT, WITHOUT ROWID;

CREATE TABLE external_result (
  source      TEXT NOT NULL,
  item        TEXT NOT NULL,
  model       TEXT NOT NULL,
  method      TEXT NOT NULL,
  options     TEXT NOT NULL,
  column_name TEXT NOT NULL,
  value       REAL,
  mark        TEXT NOT NULL,
  note        TEXT NOT NULL,
  PRIMARY KEY (source, item, model, method, options, column_name)
) STRICT, WITHOUT ROWID;

CREATE VIEW v_cell AS
WITH
  counted AS (
    SELECT cell_key, sum(status = 'ok') AS n_ok, sum(status = 'failed') AS n_failed
    FROM sample
    GROUP BY cell_key),
  totals AS (
    SELECT
      cell_key,
      count(*) AS n,
      sum(n_encoded_tokens = 0) AS n_bare,
      sum(n_encoded_tokens > 0 AND k_error = 0 AND v_error = 0) AS n_exact,
      sum(kv_bytes) AS kv_bytes,
      sum(kv_bytes_fp16) AS kv_bytes_fp16,
      sum(paper_bytes) AS paper_bytes,
      sum(n_encoded_tokens) AS n_encoded_tokens,
      max(k_error) AS max_k_error,
      max(v_error) AS max_v_error,
      max(peak_kv_bytes) AS peak_kv_bytes,
      sum(n_new_tokens) AS n_new_tokens,
      sum(encode_seconds + attend_seconds + other_seconds) AS decode_seconds
    FROM sample
    WHERE status = 'ok'
    GROUP BY cell_key),
  engages AS (
    SELECT DISTINCT cell_key FROM cell_size
    WHERE error = '' AND (n_encoded_numbers > 0 OR kv_bytes < 0.99 * kv_bytes_fp16))
SELECT
  cell.key, cell.model, cell.task, cell.plugin,
  CASE
    WHEN cell.options_label <> '' THEN cell.options_label
    ELSE ifnull((SELECT group_concat(key || '=' || value, ' ') FROM json_each(cell.options_json)), '')
  END AS options,
  CASE
    WHEN json_valid(cell.generation_json)
      THEN json_remove(
        cell.generation_json, '$.max_new_tokens', '$.stop', '$.end_tokens', '$.chat_template', '$.chat_sha256',
        '$.chat_frame', '$.chat_options', '$.chat_date', '$.add_special_tokens', '$.system_message')
    ELSE cell.generation_json
  END AS settings_json,
  CASE
    WHEN json_valid(cell.generation_json) AND cell.generation_json ->> '$.chat_template' IS NOT NULL
      AND NOT (json_valid(cell.task_json) AND cell.task_json ->> '$.chat' IS 'never')
      THEN json_patch('{}', json_object(
        'chat_template', cell.generation_json -> '$.chat_template',
        'chat_sha256', cell.generation_json -> '$.chat_sha256',
        'chat_frame', cell.generation_json -> '$.chat_frame',
        'chat_options', cell.generation_json -> '$.chat_options',
        'chat_date', cell.generation_json -> '$.chat_date',
        'add_special_tokens', cell.generation_json -> '$.add_special_tokens',
        'system_message', cell.generation_json -> '$.system_message'))
    ELSE ''
  END AS chat_json,
  cell.bits, cell.is_lossy, cell.is_simulated, cell.n_samples,
  ifnull(counted.n_ok, 0) AS n_ok,
  ifnull(counted.n_failed, 0) AS n_failed,
  max(0, cell.n_samples - ifnull(counted.n_ok, 0) - ifnull(counted.n_failed, 0)) AS n_missing,
  totals.kv_bytes, totals.kv_bytes_fp16, totals.paper_bytes, totals.n_encoded_tokens,
  totals.max_k_error, totals.max_v_error, totals.peak_kv_bytes, totals.n_new_tokens, totals.decode_seconds,
  CASE
    WHEN totals.cell_key IS NULL THEN ''
    WHEN cell.is_lossy = 0 AND max(totals.max_k_error, totals.max_v_error) > 0.005
      THEN 'keys and values changed, but the compressor is declared lossless'
    WHEN cell.is_lossy = 0 THEN ''
    -- Not suspect: every prompt fits into its uncompressed tokens, at full size, and it compresses longer ones.
    WHEN totals.n_bare = totals.n AND engages.cell_key IS NOT NULL AND totals.kv_bytes >= 0.99 * totals.kv_bytes_fp16
      THEN ''
    WHEN totals.n_bare = totals.n THEN 'no token was compressed'
    WHEN 2 * totals.n_bare > totals.n AND engages.cell_key IS NULL
      THEN 'no token was compressed in ' || totals.n_bare || ' of ' || totals.n || ' samples'
    WHEN totals.n_exact = totals.n THEN 'keys and values came back without any error'
    WHEN totals.n_exact > 0
      THEN 'keys and values came back without any error in ' || totals.n_exact || ' of ' || totals.n || ' samples'
    WHEN totals.kv_bytes >= totals.kv_bytes_fp16 AND 2 * totals.n_bare <= totals.n THEN 'the cache is not smaller than at 16 bits'
    ELSE ''
  END AS suspect,
  ifnull(totals.n_bare, 0) AS n_not_encoded
FROM cell
LEFT JOIN counted ON counted.cell_key = cell.key
LEFT JOIN totals ON totals.cell_key = cell.key
LEFT JOIN engages ON engages.cell_key = cell.key
WHERE cell.kind = 'eval';

-- Cells that are not in the latest definition of any experiment; see experiment_cell.
CREATE VIEW v_older AS
SELECT cell_key FROM experiment_cell GROUP BY cell_key HAVING min(experiment LIKE '%@older') = 1;

-- For each cell that a run worked on. An attempt that was killed, or is in progress, has no outcome.
CREATE VIEW v_attempt AS
SELECT
  a.cell_key, count(*) AS attempts, min(a.started_at) AS started_at, max(a.ended_at) AS ended_at,
  (SELECT host FROM attempt WHERE cell_key = a.cell_key ORDER BY started_at DESC, host, pid LIMIT 1) AS host,
  (SELECT device FROM attempt WHERE cell_key = a.cell_key ORDER BY started_at DESC, host, pid LIMIT 1) AS device,
  (SELECT outcome FROM attempt WHERE cell_key = a.cell_key ORDER BY started_at DESC, host, pid LIMIT 1) AS outcome
FROM attempt AS a
GROUP BY a.cell_key;

CREATE VIEW v_score AS
SELECT
  score.cell_key, score.extractor, min(score.position) AS position,
  count(*) AS n, sum(score.value) AS sum_value, count(score.answer) AS n_answers
FROM score
JOIN sample ON sample.cell_key = score.cell_key AND sample.sample = score.sample AND sample.status = 'ok'
GROUP BY score.cell_key, score.extractor;

CREATE TABLE search (
  key             TEXT    NOT NULL PRIMARY KEY,
  calibration_key TEXT    NOT NULL,
  experiment      TEXT    NOT NULL,
  model           TEXT    NOT NULL,
  tasks           TEXT    NOT NULL,
  samples_json    TEXT    NOT NULL,
  plugin          TEXT    NOT NULL,
  plugin_sha256   TEXT    NOT NULL,
  option          TEXT    NOT NULL,
  options_json    TEXT    NOT NULL,
  levels          TEXT    NOT NULL,
  budget_share    REAL    NOT NULL,
  seed            INTEGER NOT NULL,
  n_candidates    INTEGER NOT NULL CHECK (n_candidates > 0),
  n_samples       INTEGER NOT NULL CHECK (n_samples > 0),
  n_answer_tokens INTEGER NOT NULL,
  kv_bytes_fp16   INTEGER NOT NULL  -- all calibration samples' tokens at 16 bits
) STRICT, WITHOUT ROWID;

CREATE TABLE search_candidate (
  search_key TEXT    NOT NULL REFERENCES search (key) ON DELETE CASCADE,
  candidate  INTEGER NOT NULL,
  plan       TEXT    NOT NULL,
  family     TEXT    NOT NULL CHECK (family IN ('uniform', 'two_steps', 'random', 'mutation')),
  error      TEXT    NOT NULL,
  nll        REAL,
  kv_bytes   INTEGER NOT NULL,  -- sum over samples of the size at the end
  n_correct  REAL,
  PRIMARY KEY (search_key, candidate),
  UNIQUE (search_key, plan)
) STRICT, WITHOUT ROWID;

CREATE TABLE search_layer (
  search_key TEXT    NOT NULL,
  candidate  INTEGER NOT NULL,
  layer      INTEGER NOT NULL,
  value      INTEGER NOT NULL,
  kv_bytes   INTEGER NOT NULL,
  PRIMARY KEY (search_key, candidate, layer),
  FOREIGN KEY (search_key, candidate) REFERENCES search_candidate (search_key, candidate) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE VIEW v_search_candidate AS
WITH
  measured AS (
    SELECT
      c.search_key, c.candidate, c.plan, c.family, c.error, c.nll, c.kv_bytes, c.n_correct, s.n_samples,
      1.0 * c.kv_bytes / s.kv_bytes_fp16 AS kv_share,
      c.nll IS NOT NULL AND c.kv_bytes <= s.budget_share * s.kv_bytes_fp16 AS fits
    FROM search_candidate AS c
    JOIN search AS s ON s.key = c.search_key)
SELECT
  *,
  CASE WHEN fits THEN rank() OVER (PARTITION BY search_key, fits ORDER BY nll, candidate) END AS nll_rank,
  CASE
    WHEN fits THEN rank() OVER (PARTITION BY search_key, fits ORDER BY n_correct DESC NULLS LAST, nll, candidate)
  END AS rank
FROM measured;
