-- The largest peak of all repeats.
WITH
  shown AS (
    SELECT c.key, c.task, c.plugin, c.options_json, c.is_lossy, e.position,
      CASE WHEN e.label <> '' THEN e.label ELSE trim(c.plugin || ' ' || c.options_label) END AS label
    FROM experiment_cell AS e JOIN cell AS c ON c.key = e.cell_key
    WHERE e.experiment = :experiment)
SELECT s.label AS series, m.n_prompt_tokens AS x, max(m.bytes) / 1073741824.0 AS y
FROM shown AS s JOIN memory AS m ON m.cell_key = s.key AND m.part = 'peak'
GROUP BY s.key, m.n_prompt_tokens
ORDER BY s.position, m.n_prompt_tokens;
