-- The squared relative error of attention scores by m/d, the compressor's label; one line per layer.
SELECT 'layer ' || (p.layer + 1) AS series, CAST(s.label AS REAL) AS x, avg(p.value) AS y
FROM entry AS s JOIN probe AS p ON p.cell_key = s.key
WHERE s.plugin = 'qjl' AND p.measure = 'score_rel_sq' AND p.head = -1
GROUP BY p.layer, s.label
ORDER BY p.layer, x;
