-- One row per cell and length: the samples' own lengths, where "tokens" is NULL, and those of cell_size. :experiment is
-- a name; 'all' or NULL: every cell.
WITH
  shown AS (
    SELECT key, model, task, plugin, options_label, formula
    FROM cell
    WHERE kind = 'eval'
      AND (ifnull(:experiment, 'all') = 'all' AND key NOT IN (SELECT cell_key FROM v_older)
           OR key IN (SELECT cell_key FROM experiment_cell WHERE experiment = :experiment))),
  own AS (
    SELECT
      cell_key, sum(kv_bytes) AS kv_bytes, sum(kv_bytes_fp16) AS kv_bytes_fp16, sum(recent_bytes) AS recent_bytes,
      CASE WHEN count(kv_bytes_engine) = count(*) THEN sum(kv_bytes_engine) END AS kv_bytes_engine,
      sum(n_encoded_numbers) AS n_encoded_numbers, count(n_encoded_numbers) = count(*) AS is_counted
    FROM sample
    WHERE status = 'ok' AND cell_key IN (SELECT key FROM shown)
    GROUP BY cell_key),
  stored AS (
    SELECT
      cell_key, NULL AS n_tokens, kv_bytes, kv_bytes_fp16, kv_bytes_engine,
      CASE WHEN is_counted THEN recent_bytes END AS recent_bytes,
      CASE WHEN is_counted THEN n_encoded_numbers END AS n_encoded_numbers, NULL AS shared_bytes, '' AS error
    FROM own
    UNION ALL
    SELECT
      cell_key, n_tokens, kv_bytes, kv_bytes_fp16, kv_bytes_engine, recent_bytes, n_encoded_numbers, shared_bytes, error
    FROM cell_size)
SELECT
  c.key AS cell_key, c.model, c.task, c.plugin AS compressor, c.options_label AS options, h.n_tokens AS "tokens",
  100.0 * h.kv_bytes / h.kv_bytes_fp16 AS "KV size [%]",
  100.0 * h.kv_bytes / h.kv_bytes_engine AS "engine [%]",
  8.0 * (h.kv_bytes - h.recent_bytes) / nullif(h.n_encoded_numbers, 0) AS "bits/value",
  200.0 * h.n_encoded_numbers / h.kv_bytes_fp16 AS "compressed [%]",
  100.0 * h.recent_bytes / h.kv_bytes_fp16 AS "recent [%]",
  h.shared_bytes AS "shared [B]",
  c.formula,
  h.error AS "no size"
FROM stored AS h JOIN shown AS c ON c.key = h.cell_key
ORDER BY c.model, c.task, c.plugin, c.options_label, c.key, h.n_tokens;
