-- Accuracy and measured size of every cell that is not suspect
SELECT
  c.model, c.task, c.plugin, c.options, c.bits, s.n, 100.0 * s.sum_value / s.n AS accuracy_percent,
  100.0 * wilson_low(s.sum_value, s.n) AS low_percent, 100.0 * wilson_high(s.sum_value, s.n) AS high_percent,
  100.0 * c.kv_bytes / c.kv_bytes_fp16 AS kv_percent, c.key AS cell_key
FROM v_cell AS c
JOIN v_score AS s ON s.cell_key = c.key AND s.position = 0
WHERE c.suspect = ''
ORDER BY c.model, c.task, kv_percent
