-- One point per compressor, one panel per model: KL from full precision, mean over the texts, against measured size. The
-- texts' intervals are combined as those of independent means. Sizes are relative to what an engine stores at 16 bits: in a
-- layer with a sliding window what it shows.
SELECT
  model AS panel, label AS series, plugin AS method, bits, avg(size) AS x, avg(kl) AS y,
  avg(kl) - sqrt(sum((kl - kl_low) * (kl - kl_low))) / count(*) AS low,
  avg(kl) + sqrt(sum((kl_high - kl) * (kl_high - kl))) / count(*) AS high
FROM (
  SELECT
    *, (SELECT 100.0 * sum(s.kv_bytes) / sum(ifnull(s.kv_bytes_engine, s.kv_bytes_fp16)) FROM sample AS s
        WHERE s.cell_key = entry.key AND s.status = 'ok') AS size
  FROM entry WHERE kl > 0 AND kv_bytes_fp16 > 0 GROUP BY key)
GROUP BY model, label
ORDER BY model, min(position);
