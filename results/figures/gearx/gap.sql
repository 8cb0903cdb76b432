-- The two largest singular values of each mask, their difference. A mask's tensor is k or v and its name.
WITH
  gap AS (
    SELECT a.cell_key, a.layer, a.tensor, a.value - b.value AS gap
    FROM probe AS a
    JOIN probe AS b USING (cell_key, sample, layer, head, tensor, step)
    WHERE a.measure = 'lambda1' AND b.measure = 'lambda2' AND a.cell_key IN (SELECT key FROM entry))
SELECT
  upper(substr(g.tensor, 1, 1)) AS panel, s.label AS series, g.layer + 1 AS x, median(g.gap) AS y, min(g.gap) AS low,
  max(g.gap) AS high
FROM entry AS s JOIN gap AS g ON g.cell_key = s.key
GROUP BY s.key, g.tensor, g.layer
ORDER BY substr(g.tensor, 1, 1), s.position, g.layer;
