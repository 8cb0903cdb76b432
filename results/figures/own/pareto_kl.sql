-- One point per compressor: KL from full precision against measured size, one panel per text.
WITH divergence AS (
  SELECT cell_key, sum(kl) / sum(n_tokens) AS kl FROM likelihood WHERE cell_key IN (SELECT key FROM entry) GROUP BY cell_key)
SELECT e.task AS panel, e.label AS series, 100.0 * e.kv_bytes / e.kv_bytes_fp16 AS x, d.kl AS y
FROM entry AS e JOIN divergence AS d ON d.cell_key = e.key
WHERE e.kv_bytes_fp16 > 0
GROUP BY e.key
ORDER BY e.model, e.task, e.position;
