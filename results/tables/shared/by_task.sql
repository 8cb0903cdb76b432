-- One row per method: bits, KV size, accuracy by model and task, and the mean accuracy. BBH is one column: the
-- unweighted mean of its subsets, if all are present; only single tasks have intervals. A cell of several experiments
-- counts once. Running text has a column for its top-1 agreement, which no mean of accuracies includes. If a label has
-- several cells on one task (with different settings), that score, the bits and the size are left empty.
WITH
  part AS (
    SELECT
      *, min(position), measure IS 'top-1' AS is_text,
      CASE WHEN task GLOB 'bbh/*' THEN 'bbh' WHEN measure = 'top-1' THEN 'top-1 ' || task ELSE task END AS column_key
    FROM entry
    WHERE n_ok > 0
    GROUP BY label, key),
  n_tasks AS (SELECT model, column_key, is_text, count(DISTINCT task) AS n FROM part GROUP BY model, column_key),
  shown AS (
    SELECT
      label, min(position) AS position, model, column_key, n_tasks.is_text,
      CASE WHEN count(accuracy) = n THEN avg(accuracy) END AS accuracy,
      CASE WHEN n = 1 AND count(*) = 1 THEN min(low) END AS low,
      CASE WHEN n = 1 AND count(*) = 1 THEN min(high) END AS high, sum(n_scores) AS n_scores,
      group_concat(key, ' ') AS cells
    FROM part JOIN n_tasks USING (model, column_key)
    GROUP BY label, model, column_key)
SELECT
  label AS row, min(position) AS row_order, '' AS column_group, 'bits' AS "column", 0 AS column_order,
  CASE WHEN count(*) = count(DISTINCT model || ' ' || task) OR min(bits) = max(bits) THEN max(bits) END AS value, NULL AS low, NULL AS high, NULL AS n, group_concat(key, ' ') AS cells
FROM part GROUP BY label
UNION ALL
SELECT
  label, min(position), '', 'kv', 1,
  CASE WHEN count(*) = count(DISTINCT model || ' ' || task) THEN 100.0 * sum(kv_bytes) / sum(kv_bytes_fp16) END,
  NULL, NULL, sum(n_ok), group_concat(key, ' ')
FROM part GROUP BY label
UNION ALL
SELECT label, position, model, column_key, 10, accuracy, low, high, n_scores, cells FROM shown
UNION ALL
SELECT
  label, min(position), '', 'average', 100,
  CASE WHEN count(accuracy) = (SELECT count(*) FROM n_tasks WHERE NOT is_text) THEN avg(accuracy) END, NULL, NULL, NULL,
  group_concat(cells, ' ')
FROM shown WHERE NOT is_text GROUP BY label;
