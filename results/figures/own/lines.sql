-- One line per plugin over the sizes that its options give, one panel per task; of running text its top-1 agreement.
SELECT
  CASE measure WHEN 'top-1' THEN 'top-1 agreement, ' ELSE '' END || task AS panel, plugin AS series,
  100.0 * kv_bytes / kv_bytes_fp16 AS x, accuracy AS y, low, high
FROM entry
WHERE n_scores > 0 AND kv_bytes_fp16 > 0
GROUP BY key
ORDER BY model, task, is_lossy, plugin, x;
