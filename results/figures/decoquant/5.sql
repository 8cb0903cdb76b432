-- Error of K and V by what is decomposed how.
WITH
  shown AS (
    SELECT c.key, c.task, c.plugin, c.options_json, c.is_lossy, e.position,
      CASE WHEN e.label <> '' THEN e.label ELSE trim(c.plugin || ' ' || c.options_label) END AS label
    FROM experiment_cell AS e JOIN cell AS c ON c.key = e.cell_key
    WHERE e.experiment = :experiment),
  error AS (
    SELECT cell_key, tensor, avg(value) AS y
    FROM probe
    WHERE measure = 'rel_fro' AND head = -1 AND tensor IN ('k', 'v') AND cell_key IN (SELECT key FROM shown)
    GROUP BY cell_key, tensor)
SELECT s.label AS x, upper(e.tensor) AS series, e.y
FROM shown AS s JOIN error AS e ON e.cell_key = s.key
WHERE s.is_lossy
ORDER BY s.position, e.tensor;
