-- Cache size at the end of the samples relative to 16 bits, by model and task.
WITH
  shown AS (
    SELECT
      label, min(position) AS position, model, CASE WHEN task GLOB 'bbh/*' THEN 'bbh' ELSE task END AS column_key,
      max(bits) AS bits, 100.0 * sum(kv_bytes) / sum(kv_bytes_fp16) AS kv, sum(n_ok) AS n, group_concat(key, ' ') AS cells
    FROM entry
    WHERE n_ok > 0
    GROUP BY label, model, column_key)
SELECT
  label AS row, min(position) AS row_order, '' AS column_group, 'bits' AS "column", 0 AS column_order,
  max(bits) AS value, NULL AS n, group_concat(cells, ' ') AS cells
FROM shown GROUP BY label
UNION ALL
SELECT
  label, min(position), '', 'average', 1,
  CASE WHEN count(*) = (SELECT count(DISTINCT model || '/' || column_key) FROM shown) THEN avg(kv) END, NULL,
  group_concat(cells, ' ')
FROM shown GROUP BY label
UNION ALL
SELECT label, position, model, column_key, 10, kv, n, cells FROM shown;
