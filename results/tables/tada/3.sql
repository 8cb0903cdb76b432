-- Peak memory, and time of a decoding step without the prompt's exact prefill, by method and shape.
WITH
  repeats AS (
    SELECT
      e.label, e.position, e.key, t.n_prompt_tokens, t.n_new_tokens, t.batch, t.repeat, sum(t.seconds) AS seconds
    FROM entry AS e
    JOIN timing AS t ON t.cell_key = e.key AND t.phase IN ('encode', 'attend', 'other') AND t.part = 'all'
    GROUP BY e.key, t.n_prompt_tokens, t.n_new_tokens, t.batch, t.repeat),
  timed AS (
    SELECT *, 1000.0 * median(seconds) / n_new_tokens AS ms, count(*) AS n
    FROM repeats
    GROUP BY key, n_prompt_tokens, n_new_tokens, batch),
  named AS (
    SELECT *, n_prompt_tokens || ' + ' || n_new_tokens || ' tokens, batch ' || batch AS shape FROM timed)
SELECT
  shape AS row_group, label AS row, position AS row_order, 'memory' AS "column", 1 AS column_order,
  max(m.bytes) / 1073741824.0 AS value, NULL AS n, key AS cells
FROM named
JOIN memory AS m ON m.cell_key = key AND m.part = 'peak' AND m.n_prompt_tokens = named.n_prompt_tokens
  AND m.n_new_tokens = named.n_new_tokens AND m.batch = named.batch
GROUP BY key, shape
UNION ALL
SELECT shape, label, position, 'time', 2, ms, n, key FROM named;
