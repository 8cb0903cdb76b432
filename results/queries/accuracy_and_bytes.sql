-- Score and measured size of every cell that is not suspect
SELECT
  c.model, c.task, c.plugin, c.options, c.bits, i.measure, i.n, 100.0 * i.mean AS score_percent, 100.0 * i.low AS low_percent,
  100.0 * i.high AS high_percent, 100.0 * c.kv_bytes / c.kv_bytes_fp16 AS kv_percent, c.key AS cell_key
FROM v_cell AS c
JOIN v_interval AS i ON i.cell_key = c.key AND i.position = 0
WHERE c.suspect = ''
ORDER BY c.model, c.task, kv_percent
