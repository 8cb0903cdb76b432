-- One point per compressor: score against measured size; one panel per task, and one for the mean of those with
-- answers if there are several.
WITH
  scored AS (
    SELECT
      model, task, label, plugin, bits, min(position) AS position, kv_bytes, kv_bytes_fp16, accuracy, low, high, measure
    FROM entry
    WHERE n_scores > 0 AND kv_bytes_fp16 > 0
    GROUP BY key),
  n_models AS (SELECT count(DISTINCT model) AS n FROM scored),
  point AS (
    SELECT
      CASE WHEN n > 1 THEN model || ', ' ELSE '' END AS prefix, task, label, plugin, bits, position, kv_bytes,
      kv_bytes_fp16, accuracy, low, high, measure
    FROM scored CROSS JOIN n_models),
  n_tasks AS (SELECT prefix, count(DISTINCT task) AS n FROM point WHERE measure <> 'top-1' GROUP BY prefix),
  mean AS (
    SELECT
      prefix, label, plugin, bits, min(position) AS position, sum(kv_bytes) AS kv_bytes, sum(kv_bytes_fp16) AS kv_bytes_fp16,
      avg(accuracy) AS accuracy, n AS n_tasks
    FROM point JOIN n_tasks USING (prefix)
    WHERE measure <> 'top-1'
    GROUP BY prefix, label
    HAVING n > 1 AND count(DISTINCT task) = n)
SELECT panel, series, method, bits, x, y, low, high
FROM (
  SELECT
    prefix || 'mean of ' || n_tasks || ' tasks' AS panel, label AS series, plugin AS method, bits,
    100.0 * kv_bytes / kv_bytes_fp16 AS x, accuracy AS y, NULL AS low, NULL AS high, 0 AS part, position
  FROM mean
  UNION ALL
  SELECT
    prefix || CASE measure WHEN 'top-1' THEN 'top-1 agreement, ' ELSE '' END || task, label, plugin, bits,
    100.0 * kv_bytes / kv_bytes_fp16, accuracy, low, high, 1, position
  FROM point)
ORDER BY part, panel, position;
