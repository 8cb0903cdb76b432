-- One row per cell, with its headline score. :experiment is a name; 'all' or NULL: every cell.
-- variant: cells of different tasks with the same variant share a row; those with user's turns also need the same
-- chat_json. measure, kl (of running text, nats per token) and intervals are those of v_interval, see interval_views.sql.
-- Answers are samples that generated text instead of scoring choices; at the limit are those that max_new_tokens or the
-- context cut, in a loop those whose last tokens repeat. decode_seconds is encode + attend + other, without prefill; KV size is a ratio of sums over samples.
WITH intervals AS MATERIALIZED (SELECT * FROM v_interval WHERE measure <> 'nll')
SELECT
  c.model, c.plugin, c.options, c.bits, c.task, c.is_lossy, c.is_simulated, c.suspect,
  c.n_samples, c.n_ok, c.n_failed, c.n_missing, c.n_not_encoded,
  c.kv_bytes, c.kv_bytes_fp16, c.paper_bytes, c.peak_kv_bytes, c.n_new_tokens, c.decode_seconds,
  s.extractor,
  100.0 * s.mean AS score_percent,
  100.0 * s.low AS low_percent,
  100.0 * s.high AS high_percent,
  cell.model_json || char(10) || cell.plugin_sha256 || char(10) || cell.options_json || char(10) || c.settings_json
    AS variant,
  c.chat_json,
  ifnull((
    SELECT min(e.label) FROM experiment_cell AS e
    WHERE e.cell_key = c.key AND e.label <> '' AND (ifnull(:experiment, 'all') = 'all' OR e.experiment = :experiment)),
    '') AS label,
  (SELECT max(e.min_baseline) FROM experiment_cell AS e
   WHERE e.cell_key = c.key AND (ifnull(:experiment, 'all') = 'all' OR e.experiment = :experiment)) AS min_baseline,
  c.key, s.measure, kl.mean AS kl, kl.low AS kl_low, kl.high AS kl_high,
  a.n_answers, a.n_answer_tokens, a.n_at_limit, a.n_in_loop
FROM v_cell AS c
JOIN cell ON cell.key = c.key
LEFT JOIN intervals AS s ON s.cell_key = c.key AND s.position = 0
LEFT JOIN intervals AS kl ON kl.cell_key = c.key AND kl.measure = 'kl'
LEFT JOIN (
  SELECT
    cell_key, count(*) AS n_answers, sum(n_new_tokens) AS n_answer_tokens,
    sum(stop_reason IN ('limit', 'context')) AS n_at_limit, sum(ends_in_loop(token_ids_json)) AS n_in_loop
  FROM sample
  WHERE status = 'ok' AND stop_reason NOT IN ('', 'scored')
  GROUP BY cell_key) AS a ON a.cell_key = c.key
WHERE ifnull(:experiment, 'all') = 'all' AND c.key NOT IN (SELECT cell_key FROM v_older)
   OR c.key IN (SELECT cell_key FROM experiment_cell WHERE experiment = :experiment)
ORDER BY c.model, c.is_lossy, c.plugin, c.bits DESC, c.options, variant, c.task, c.key;
