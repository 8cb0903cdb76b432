-- The Frobenius norm of what the cache changes of a prompt's K and V.
WITH
  shown AS (
    SELECT c.key, c.task, c.plugin, c.options_json, c.is_lossy, e.position,
      CASE WHEN e.label <> '' THEN e.label ELSE trim(c.plugin || ' ' || c.options_label) END AS label
    FROM experiment_cell AS e JOIN cell AS c ON c.key = e.cell_key
    WHERE e.experiment = :experiment)
SELECT upper(p.tensor) AS panel, s.label AS series, p.layer + 1 AS x, avg(p.value) AS y
FROM shown AS s JOIN probe AS p ON p.cell_key = s.key
WHERE s.is_lossy AND p.measure = 'abs_fro' AND p.head = -1 AND p.tensor IN ('k', 'v')
GROUP BY s.key, p.tensor, p.layer
ORDER BY p.tensor, s.position, p.layer;
