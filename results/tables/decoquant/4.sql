-- Quartiles of the values of K and V and of the parts a method splits them into, by layer; means over the prompts.
-- A part is named by its tensor and its own name: k_t_l, v_t_s. The layers are the first, the middle and the last.
WITH
  measured AS (
    SELECT
      e.model, e.key, p.layer, p.measure, substr(p.tensor, 1, 1) AS side,
      CASE WHEN length(p.tensor) = 1 THEN 'matrix' ELSE substr(p.tensor, 3) END AS part,
      avg(p.value) AS value, count(DISTINCT p.sample) AS n
    FROM entry AS e
    JOIN probe AS p ON p.cell_key = e.key AND p.measure IN ('q1', 'q3')
    WHERE p.tensor IN ('k', 'v') OR p.tensor GLOB '[kv]_*'
    GROUP BY e.model, e.key, p.layer, p.measure, p.tensor),
  quartiles AS (
    SELECT
      model, layer, side, part, max(key) AS key, max(n) AS n,
      max(CASE WHEN measure = 'q1' THEN value END) AS q1, max(CASE WHEN measure = 'q3' THEN value END) AS q3
    FROM measured
    GROUP BY model, layer, side, part),
  last AS (SELECT max(layer) AS layer FROM quartiles),
  shown AS (
    SELECT
      quartiles.*, quartiles.layer + 1 AS number,
      quartiles.layer * 10 + CASE part WHEN 'matrix' THEN 0 WHEN 't_l' THEN 1 ELSE 2 END AS place,
      CASE side WHEN 'k' THEN 'keys' ELSE 'values' END AS tensor, CASE side WHEN 'k' THEN 0 ELSE 10 END AS side_place
    FROM quartiles, last
    WHERE quartiles.layer IN (0, (last.layer + 1) / 2 - 1, last.layer))
SELECT
  model AS row_group, 'layer ' || number || ', ' || part AS row, place AS row_order, tensor AS column_group,
  'Q1' AS "column", side_place + 1 AS column_order, q1 AS value, n, key AS cells
FROM shown
UNION ALL
SELECT model, 'layer ' || number || ', ' || part, place, tensor, 'Q3', side_place + 2, q3, n, key FROM shown
UNION ALL
SELECT model, 'layer ' || number || ', ' || part, place, tensor, 'IQR', side_place + 3, q3 - q1, n, key FROM shown;
