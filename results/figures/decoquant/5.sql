-- Error of K and V by decomposition.
WITH
  error AS (
    SELECT cell_key, tensor, avg(value) AS y
    FROM probe
    WHERE measure = 'rel_fro' AND head = -1 AND tensor IN ('k', 'v') AND cell_key IN (SELECT key FROM entry)
    GROUP BY cell_key, tensor)
SELECT s.label AS x, upper(e.tensor) AS series, e.y
FROM entry AS s JOIN error AS e ON e.cell_key = s.key
WHERE s.is_lossy
ORDER BY s.position, e.tensor;
