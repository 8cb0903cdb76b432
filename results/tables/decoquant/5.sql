-- Tokens per demonstration: the difference in prompt length between the largest and smallest number of demonstrations
-- ("icl/<set>/<number>"), divided by the difference of the numbers. One column per model.
WITH
  named AS (
    SELECT
      model, key, CAST(replace(task, rtrim(task, replace(task, '/', '')), '') AS INTEGER) AS shots,
      substr(task, 5, length(rtrim(task, replace(task, '/', ''))) - 5) AS name,
      1.0 * n_prompt_tokens / n_ok AS tokens
    FROM entry
    WHERE n_ok > 0 AND task GLOB 'icl/*/*' AND plugin = 'full'),
  ends AS (SELECT model, name, min(shots) AS fewest, max(shots) AS most FROM named GROUP BY model, name)
SELECT
  ends.name AS row, ends.model AS "column", (high.tokens - low.tokens) / (most - fewest) AS value,
  low.key || ' ' || high.key AS cells
FROM ends
JOIN named AS low ON low.model = ends.model AND low.name = ends.name AND low.shots = fewest
JOIN named AS high ON high.model = ends.model AND high.name = ends.name AND high.shots = most
WHERE most > fewest;
