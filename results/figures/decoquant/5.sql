-- Error of K and V by what is decomposed how.
WITH
  shown AS (
    SELECT c.key, c.task, c.plugin, c.options_json, c.is_lossy, e.position,
      CASE WHEN e.label <> '' THEN e.label ELSE trim(c.plugin || ' ' || c.options_label) END AS label
    FROM experiment_cell AS e JOIN cell AS c ON c.key = e.cell_key
    WHERE e.experiment = :experiment),
  error AS (
    SELECT cell_key, 'k' AS tensor, avg(k_error) AS y FROM sample WHERE status = 'ok'
      AND cell_key IN (SELECT key FROM shown) GROUP BY cell_key
    UNION ALL
    SELECT cell_key, 'v', avg(v_error) FROM sample WHERE status = 'ok'
      AND cell_key IN (SELECT key FROM shown) GROUP BY cell_key)
SELECT s.label AS x, upper(e.tensor) AS series, e.y
FROM shown AS s JOIN error AS e ON e.cell_key = s.key
WHERE s.is_lossy
ORDER BY s.position, e.tensor;
