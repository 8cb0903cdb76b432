-- Number of questions of each task, and lengths of prompts and answers; the suite BBH is one row. Uses the first
-- compressor's cell of each task, since prompts do not depend on it.
WITH
  first AS (
    SELECT *, min(position) AS first_position
    FROM entry
    WHERE n_ok > 0
    GROUP BY model, task),
  grouped AS (
    SELECT
      model, CASE WHEN task GLOB 'bbh/*' THEN 'bbh' ELSE task END AS row_key, sum(n_ok) AS n,
      1.0 * sum(n_prompt_tokens) / sum(n_ok) AS prompt_tokens, 1.0 * sum(n_new_tokens) / sum(n_ok) AS new_tokens,
      max(json_extract(generation_json, '$.max_new_tokens')) AS limit_tokens, group_concat(key, ' ') AS cells
    FROM first
    GROUP BY model, row_key)
SELECT
  model AS row_group, row_key AS row, 'examples' AS "column", 1 AS column_order, n AS value, NULL AS n, cells
FROM grouped
UNION ALL
SELECT model, row_key, 'prompt', 2, prompt_tokens, n, cells FROM grouped
UNION ALL
SELECT model, row_key, 'limit', 3, limit_tokens, NULL, cells FROM grouped
UNION ALL
SELECT model, row_key, 'answer', 4, new_tokens, n, cells FROM grouped;
