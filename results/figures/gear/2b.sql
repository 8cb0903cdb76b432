-- Singular values of the quantization residual in the first layer, one line per head.
SELECT
  s.label || ', ' || upper(substr(p.tensor, 1, 1)) AS panel, 'head ' || (p.head + 1) AS series, p.step + 1 AS x,
  avg(p.value) AS y
FROM entry AS s JOIN probe AS p ON p.cell_key = s.key
WHERE s.is_lossy AND p.measure = 'sigma' AND p.tensor IN ('k_residual', 'v_residual') AND p.layer = 0
GROUP BY s.key, p.tensor, p.head, p.step
ORDER BY s.position, p.tensor, p.head, p.step;
