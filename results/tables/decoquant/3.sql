-- In-context learning: one row per model, method and number of demonstrations ("icl/<set>/<number>"), one column per
-- set.
WITH
  named AS (
    SELECT
      *, CASE WHEN task GLOB 'icl/*/*' THEN replace(task, rtrim(task, replace(task, '/', '')), '') ELSE '' END AS shots,
      CASE
        WHEN task GLOB 'icl/*/*' THEN substr(task, 5, length(rtrim(task, replace(task, '/', ''))) - 5) ELSE task
      END AS name
    FROM entry
    WHERE n_ok > 0),
  shown AS (
    SELECT
      *, label || CASE WHEN shots = '' THEN '' ELSE ' ' || shots || '-shot' END AS row_name,
      position * 1000 + CAST(shots AS INTEGER) AS place
    FROM named)
SELECT
  model AS row_group, row_name AS row, place AS row_order, name AS "column", 1 AS column_order, accuracy AS value,
  low, high, n_scores AS n, key AS cells
FROM shown
UNION ALL
SELECT
  model, row_name, min(place), 'average', 2,
  CASE
    WHEN count(accuracy) = (SELECT count(DISTINCT name) FROM shown AS other WHERE other.model = shown.model)
    THEN avg(accuracy)
  END,
  NULL, NULL, NULL, group_concat(key, ' ')
FROM shown
GROUP BY model, row_name;
