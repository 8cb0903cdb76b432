-- The longest sequence that fits, by method and limit: tried, where it was, and computed from measured bytes per token.
SELECT
  model AS row_group, label AS row, min(position) AS row_order, 'bits' AS "column", 0 AS column_order, max(bits) AS value,
  group_concat(key, ' ') AS cells
FROM entry JOIN capacity AS c ON c.cell_key = key AND c.kind = 'max_context'
GROUP BY model, label
UNION ALL
SELECT
  model, label, position, printf('%g GB, ', c.limit_bytes / 1e9) || c.how, 1, c.value, key
FROM entry JOIN capacity AS c ON c.cell_key = key AND c.kind = 'max_context';
