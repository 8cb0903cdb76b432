-- KL from full precision by position, one line per compressor; panels of each task: the mean, and where enough tokens were
-- scored, percentiles of tokens; a point for each stretch of positions that doubles.
WITH
  stretch AS (
    SELECT 0 AS first, 256 AS past UNION ALL SELECT past, 2 * past FROM stretch WHERE past < 1 << 24),
  part AS (SELECT DISTINCT key, model, task, label, plugin, bits, position FROM entry WHERE kl > 0),
  block AS (
    SELECT p.*, l.sample, l.position AS place, l.n_tokens, l.kl, s.first
    FROM part AS p
    JOIN likelihood AS l ON l.cell_key = p.key
    JOIN sample AS ok ON ok.cell_key = l.cell_key AND ok.sample = l.sample AND ok.status = 'ok'
    JOIN stretch AS s ON l.position >= s.first AND l.position < s.past),
  percentile (share, name) AS (VALUES (0.9, ', 90th percentile'), (0.99, ', 99th percentile')),
  token AS (
    SELECT p.*, t.kl, s.first, max(s.first, t.position) AS place, max(0, s.first - t.position) AS begin,
      min(s.past - t.position, length(t.kl) / 4) AS past
    FROM part AS p
    JOIN token_likelihood AS t ON t.cell_key = p.key
    JOIN sample AS ok ON ok.cell_key = t.cell_key AND ok.sample = t.sample AND ok.status = 'ok'
    JOIN stretch AS s ON s.past > t.position AND s.first < t.position + length(t.kl) / 4),
  line AS (
    SELECT
      model, task, 0.0 AS share, '' AS name, min(position) AS position, label, plugin, bits, min(place) AS x,
      sum(kl) / sum(n_tokens) AS y, max(1e-12, clustered_low(kl, n_tokens, sample)) AS low,
      clustered_high(kl, n_tokens, sample) AS high
    FROM block
    GROUP BY key, label, first
    UNION ALL
    SELECT
      model, task, share, name, min(position), label, plugin, bits, min(place),
      max(1e-12, float_quantile(share, kl, begin, past)), NULL, NULL
    FROM token, percentile
    GROUP BY key, label, first, share
    HAVING sum(past - begin) * (1 - share) >= 9.999)
SELECT task || name AS panel, label AS series, plugin AS method, bits, x, y, low, high
FROM line
ORDER BY model, task, share, position, x;
