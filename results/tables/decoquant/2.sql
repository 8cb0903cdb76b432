-- Cache size, and accuracy by model and task; with and without quantized weights, in descending order of bits.
WITH
  named AS (
    SELECT
      *,
      CASE
        WHEN json_extract(model_json, '$.quantization.weights') IS NULL THEN 'K and V alone'
        ELSE 'weights, K and V'
      END AS setting,
      1000 * (16 - ifnull(json_extract(model_json, '$.quantization.weights.bits'), 16)) + position AS place
    FROM entry
    WHERE n_ok > 0),
  n_columns AS (SELECT setting, count(DISTINCT model || '/' || task) AS n FROM named GROUP BY setting)
SELECT
  setting AS row_group, label AS row, min(place) AS row_order, '' AS column_group, 'size' AS "column",
  0 AS column_order, 1e-6 * sum(kv_bytes) / sum(n_ok) AS value, NULL AS low, NULL AS high, sum(n_ok) AS n,
  group_concat(key, ' ') AS cells
FROM named GROUP BY setting, label
UNION ALL
SELECT setting, label, place, model, task, 10, accuracy, low, high, n_scores, key FROM named
UNION ALL
SELECT
  setting, label, min(place), '', 'average', 100, CASE WHEN count(accuracy) = n_columns.n THEN avg(accuracy) END,
  NULL, NULL, NULL, group_concat(key, ' ')
FROM named JOIN n_columns USING (setting)
GROUP BY setting, label;
