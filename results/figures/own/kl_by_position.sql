-- KL from full precision by position, one line per compressor and one panel per task; a point for each stretch of positions
-- that doubles.
WITH
  stretch AS (
    SELECT 0 AS first, 256 AS past UNION ALL SELECT past, 2 * past FROM stretch WHERE past < 1 << 24),
  part AS (SELECT DISTINCT key, model, task, label, plugin, bits, position FROM entry WHERE kl > 0),
  block AS (
    SELECT p.*, l.sample, l.position AS place, l.n_tokens, l.kl, s.first
    FROM part AS p
    JOIN likelihood AS l ON l.cell_key = p.key
    JOIN sample AS ok ON ok.cell_key = l.cell_key AND ok.sample = l.sample AND ok.status = 'ok'
    JOIN stretch AS s ON l.position >= s.first AND l.position < s.past)
SELECT
  task AS panel, label AS series, plugin AS method, bits, min(place) AS x, sum(kl) / sum(n_tokens) AS y,
  max(1e-12, clustered_low(kl, n_tokens, sample)) AS low, clustered_high(kl, n_tokens, sample) AS high
FROM block
GROUP BY key, label, first
ORDER BY model, task, min(position), x;
