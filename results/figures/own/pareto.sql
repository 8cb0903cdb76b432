-- One point per compressor: accuracy against measured size; one panel per task, and one for the mean if there are
-- several.
WITH
  scored AS (
    SELECT model, task, label, min(position) AS position, kv_bytes, kv_bytes_fp16, accuracy, low, high
    FROM entry
    WHERE n_scores > 0 AND kv_bytes_fp16 > 0
    GROUP BY key),
  n_models AS (SELECT count(DISTINCT model) AS n FROM scored),
  point AS (
    SELECT
      CASE WHEN n > 1 THEN model || ', ' ELSE '' END AS prefix, task, label, position, kv_bytes, kv_bytes_fp16, accuracy,
      low, high
    FROM scored CROSS JOIN n_models),
  n_tasks AS (SELECT prefix, count(DISTINCT task) AS n FROM point GROUP BY prefix),
  mean AS (
    SELECT
      prefix, label, min(position) AS position, sum(kv_bytes) AS kv_bytes, sum(kv_bytes_fp16) AS kv_bytes_fp16,
      avg(accuracy) AS accuracy, n AS n_tasks
    FROM point JOIN n_tasks USING (prefix)
    GROUP BY prefix, label
    HAVING n > 1 AND count(DISTINCT task) = n)
SELECT panel, series, x, y, low, high
FROM (
  SELECT
    prefix || 'mean of ' || n_tasks || ' tasks' AS panel, label AS series, 100.0 * kv_bytes / kv_bytes_fp16 AS x,
    accuracy AS y, NULL AS low, NULL AS high, 0 AS part, position
  FROM mean
  UNION ALL
  SELECT prefix || task, label, 100.0 * kv_bytes / kv_bytes_fp16, accuracy, low, high, 1, position FROM point)
ORDER BY part, panel, position;
