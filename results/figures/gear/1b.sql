-- The largest difference of a logit from the exact cache's by step, of the first prompt: with the exact answer's
-- tokens fed in, and running free.
WITH
  shown AS (
    SELECT c.key, c.task, c.plugin, c.options_json, c.is_lossy, e.position,
      CASE WHEN e.label <> '' THEN e.label ELSE trim(c.plugin || ' ' || c.options_label) END AS label
    FROM experiment_cell AS e JOIN cell AS c ON c.key = e.cell_key
    WHERE e.experiment = :experiment)
SELECT
  CASE p.measure WHEN 'logit_max_abs' THEN 'fed with the exact answer' ELSE 'running free' END AS panel,
  s.label AS series, p.step AS x, p.value AS y
FROM shown AS s JOIN probe AS p ON p.cell_key = s.key
WHERE s.is_lossy AND p.measure IN ('logit_max_abs', 'logit_max_abs_free')
  AND p.sample = (SELECT min(sample) FROM probe WHERE cell_key = s.key AND measure = 'logit_max_abs')
ORDER BY p.measure, s.position, p.step;
