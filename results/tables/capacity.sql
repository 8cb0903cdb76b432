-- What fits: one row per compressor, limit and kind, computed from measured bytes and tried by running; ascending.
WITH
  of_experiment AS (
    SELECT key, model, task, plugin, options_label
    FROM cell
    WHERE ifnull(:experiment, 'all') = 'all' AND key NOT IN (SELECT cell_key FROM v_older)
       OR key IN (SELECT cell_key FROM experiment_cell WHERE experiment = :experiment))
SELECT
  c.model, c.task, c.plugin AS compressor, c.options_label AS options, t.kind,
  t.limit_bytes AS "limit [bytes]",
  t.n_tokens AS "tokens each",
  max(CASE WHEN t.how = 'computed' THEN t.value END) AS computed,
  max(CASE WHEN t.how = 'tried' THEN t.value END) AS tried
FROM of_experiment AS c
JOIN capacity AS t ON t.cell_key = c.key
GROUP BY c.key, t.kind, t.limit_bytes, t.n_tokens
ORDER BY c.model, c.task, t.kind, t.limit_bytes, t.n_tokens, tried, c.plugin, c.options_label, c.key;
