-- GSM8K by model, and the tasks of LongBench. Demo stand-ins: demo/lookup and demo/swaps for long contexts, other tasks
-- for short ones. KV sizes and the long tasks' average are over all tasks of their kind.
WITH
  part AS (
    SELECT *, task GLOB 'longbench*' OR task IN ('demo/lookup', 'demo/swaps') AS is_long
    FROM entry
    WHERE n_ok > 0),
  n_long AS (SELECT count(DISTINCT model || '/' || task) AS n FROM part WHERE is_long)
SELECT
  label AS row, min(position) AS row_order, '' AS column_group, 'bits' AS "column", 0 AS column_order,
  max(bits) AS value, NULL AS low, NULL AS high, NULL AS n, group_concat(key, ' ') AS cells
FROM part GROUP BY label
UNION ALL
SELECT
  label, min(position), CASE WHEN is_long THEN 'long' ELSE 'short' END,
  CASE WHEN is_long THEN 'kv_long' ELSE 'kv_short' END, CASE WHEN is_long THEN 20 ELSE 1 END,
  100.0 * sum(kv_bytes) / sum(kv_bytes_fp16), NULL, NULL, sum(n_ok), group_concat(key, ' ')
FROM part GROUP BY label, is_long
UNION ALL
SELECT label, position, 'short', model || '/' || task, 10, accuracy, low, high, n_scores, key
FROM part WHERE NOT is_long
UNION ALL
SELECT label, position, 'long', task, 30, accuracy, low, high, n_scores, key
FROM part
WHERE task IN ('longbench/qmsum', 'longbench/samsum', 'longbench/gov_report', 'demo/lookup', 'demo/swaps')
UNION ALL
SELECT
  label, min(position), 'long', 'average', 40, CASE WHEN count(accuracy) = n_long.n THEN avg(accuracy) END, NULL, NULL,
  NULL, group_concat(key, ' ')
FROM part, n_long
WHERE is_long
GROUP BY label;
