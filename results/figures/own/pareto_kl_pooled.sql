-- One point per compressor, one panel per model: KL from full precision, mean over the texts, against measured size. The
-- texts' intervals are combined as those of independent means.
SELECT
  model AS panel, label AS series, plugin AS method, bits, avg(100.0 * kv_bytes / kv_bytes_fp16) AS x, avg(kl) AS y,
  avg(kl) - sqrt(sum((kl - kl_low) * (kl - kl_low))) / count(*) AS low,
  avg(kl) + sqrt(sum((kl_high - kl) * (kl_high - kl))) / count(*) AS high
FROM (SELECT * FROM entry WHERE kl > 0 AND kv_bytes_fp16 > 0 GROUP BY key)
GROUP BY model, label
ORDER BY model, min(position);
