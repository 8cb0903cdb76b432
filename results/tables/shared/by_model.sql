-- One row per model and method: bits, KV size, accuracy by task, and the mean. A label "model: method" names its model.
WITH
  named AS (
    SELECT
      *,
      CASE WHEN instr(label, ': ') > 0 THEN substr(label, 1, instr(label, ': ') - 1) ELSE model END AS shown_model,
      CASE WHEN instr(label, ': ') > 0 THEN substr(label, instr(label, ': ') + 2) ELSE label END AS method
    FROM entry
    WHERE n_ok > 0)
SELECT
  shown_model AS row_group, method AS row, min(position) AS row_order, 'bits' AS "column", 0 AS column_order,
  max(bits) AS value, NULL AS low, NULL AS high, NULL AS n, group_concat(key, ' ') AS cells
FROM named GROUP BY shown_model, method
UNION ALL
SELECT
  shown_model, method, min(position), 'kv', 1, 100.0 * sum(kv_bytes) / sum(kv_bytes_fp16), NULL, NULL, sum(n_ok),
  group_concat(key, ' ')
FROM named GROUP BY shown_model, method
UNION ALL
SELECT shown_model, method, position, task, 10, accuracy, low, high, n_scores, key FROM named
UNION ALL
SELECT
  shown_model, method, min(position), 'average', 100,
  CASE
    WHEN count(accuracy) = (SELECT count(DISTINCT task) FROM named AS other WHERE other.shown_model = named.shown_model)
    THEN avg(accuracy)
  END,
  NULL, NULL, NULL, group_concat(key, ' ')
FROM named GROUP BY shown_model, method;
