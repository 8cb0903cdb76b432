-- The tasks of LongBench as evaluated: questions, length of whole prompts in words (Chinese tasks: characters) and
-- tokens, metric, language. A row is named by the last part of a task's name, and uses the first compressor's cell.
WITH
  first AS (
    SELECT
      *, min(position) AS first_position, replace(task, rtrim(task, replace(task, '/', '')), '') AS name,
      task GLOB '*_zh' OR task GLOB '*/dureader' OR task GLOB '*/vcsum' OR task GLOB '*/lsht' AS is_chinese
    FROM entry
    WHERE n_ok > 0
    GROUP BY model, task),
  measured AS (
    SELECT
      first.key, avg(length(text.body)) AS characters,
      avg(length(trim(text.body)) - length(replace(trim(text.body), ' ', '')) + 1) AS words
    FROM first
    JOIN sample ON sample.cell_key = first.key AND sample.status = 'ok'
    JOIN text ON text.sha256 = sample.prompt_sha256
    GROUP BY first.key)
SELECT
  model AS row_group, name AS row, 'length' AS "column", 1 AS column_order,
  CASE WHEN is_chinese THEN characters ELSE words END AS value, n_ok AS n, key AS cells
FROM first JOIN measured USING (key)
UNION ALL
SELECT model, name, 'tokens', 2, 1.0 * n_prompt_tokens / n_ok, n_ok, key FROM first
UNION ALL
SELECT model, name, 'metric', 3, json_extract(task_json, '$.metric'), NULL, key FROM first
UNION ALL
SELECT
  model, name, 'language', 4,
  CASE
    WHEN is_chinese THEN 'Chinese'
    WHEN task GLOB '*/lcc' OR task GLOB '*/repobench-p' THEN 'code'
    ELSE 'English'
  END,
  NULL, key
FROM first
UNION ALL
SELECT model, name, 'questions', 5, n_ok, NULL, key FROM first;
