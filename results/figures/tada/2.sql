-- The Frobenius norm of the cache's error in a prompt's K and V.
SELECT upper(p.tensor) AS panel, s.label AS series, p.layer + 1 AS x, avg(p.value) AS y
FROM entry AS s JOIN probe AS p ON p.cell_key = s.key
WHERE s.is_lossy AND p.measure = 'abs_fro' AND p.head = -1 AND p.tensor IN ('k', 'v')
GROUP BY s.key, p.tensor, p.layer
ORDER BY p.tensor, s.position, p.layer;
