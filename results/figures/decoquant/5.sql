-- Error of K and V by what is decomposed how.
WITH
  error AS (
    SELECT cell_key, 'k' AS tensor, avg(k_error) AS y FROM sample WHERE status = 'ok'
      AND cell_key IN (SELECT key FROM entry) GROUP BY cell_key
    UNION ALL
    SELECT cell_key, 'v', avg(v_error) FROM sample WHERE status = 'ok'
      AND cell_key IN (SELECT key FROM entry) GROUP BY cell_key)
SELECT s.label AS x, upper(e.tensor) AS series, e.y
FROM entry AS s JOIN error AS e ON e.cell_key = s.key
WHERE s.is_lossy
ORDER BY s.position, e.tensor;
