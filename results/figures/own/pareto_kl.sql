-- One point per compressor: KL from full precision against measured size, one panel per text.
SELECT
  task AS panel, label AS series, plugin AS method, bits, 100.0 * kv_bytes / kv_bytes_fp16 AS x, kl AS y, kl_low AS low,
  kl_high AS high
FROM entry
WHERE kl IS NOT NULL AND kv_bytes_fp16 > 0
GROUP BY key
ORDER BY model, task, position;
