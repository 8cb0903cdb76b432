-- Accuracy task by task; the last row is their unweighted mean.
WITH n_tasks AS (SELECT model, count(DISTINCT task) AS n FROM entry WHERE n_ok > 0 GROUP BY model)
SELECT
  model AS column_group, label AS "column", position AS column_order,
  CASE WHEN task GLOB 'bbh/*' THEN substr(task, 5) ELSE task END AS row, 0 AS row_order, accuracy AS value, low, high,
  n_scores AS n, key AS cells
FROM entry
WHERE n_ok > 0
UNION ALL
SELECT
  model, label, min(position), 'mean over tasks', 1, CASE WHEN count(accuracy) = n_tasks.n THEN avg(accuracy) END, NULL,
  NULL, NULL, group_concat(key, ' ')
FROM entry JOIN n_tasks USING (model)
WHERE n_ok > 0
GROUP BY model, label;
