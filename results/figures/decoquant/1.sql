-- Quartiles and extremes of the values of K and V and of their decomposition, in the middle layer.
WITH
  middle AS (
    SELECT (max(layer) + 1) / 2 AS layer FROM probe WHERE measure = 'q1' AND cell_key IN (SELECT key FROM entry)),
  value AS (
    SELECT p.tensor, p.measure, avg(p.value) AS value
    FROM probe AS p JOIN middle USING (layer)
    WHERE p.cell_key IN (SELECT key FROM entry WHERE is_lossy) AND p.measure IN ('min', 'q1', 'median', 'q3', 'max')
      AND p.tensor IN ('k', 'v', 'k_t_l', 'k_t_s', 'v_t_l', 'v_t_s')
    GROUP BY p.tensor, p.measure)
SELECT
  upper(substr(tensor, 1, 1)) AS panel,
  CASE substr(tensor, 2) WHEN '' THEN 'matrix' WHEN '_t_l' THEN 'T_L' ELSE 'T_S' END AS x,
  max(CASE WHEN measure = 'min' THEN value END) AS low,
  max(CASE WHEN measure = 'q1' THEN value END) AS q1,
  max(CASE WHEN measure = 'median' THEN value END) AS median,
  max(CASE WHEN measure = 'q3' THEN value END) AS q3,
  max(CASE WHEN measure = 'max' THEN value END) AS high
FROM value
GROUP BY tensor
ORDER BY tensor;
