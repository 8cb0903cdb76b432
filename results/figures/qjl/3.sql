-- The squared relative error of attention scores by m/d, which is the label of the compressor; one line a layer.
WITH
  shown AS (
    SELECT c.key, c.task, c.plugin, c.options_json, c.is_lossy, e.position,
      CASE WHEN e.label <> '' THEN e.label ELSE trim(c.plugin || ' ' || c.options_label) END AS label
    FROM experiment_cell AS e JOIN cell AS c ON c.key = e.cell_key
    WHERE e.experiment = :experiment)
SELECT 'layer ' || (p.layer + 1) AS series, CAST(s.label AS REAL) AS x, avg(p.value) AS y
FROM shown AS s JOIN probe AS p ON p.cell_key = s.key
WHERE s.plugin = 'qjl' AND p.measure = 'score_rel_sq' AND p.head = -1
GROUP BY p.layer, s.label
ORDER BY p.layer, x;
