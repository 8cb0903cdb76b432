-- A view of every connection that has kvc's SQL functions. Row: a cell's headline score, and of running text also its KL
-- and loss, over the samples that did not fail. measure: 'accuracy' (all values are 0 or 1: Wilson's interval), 'score'
-- (BCa bootstrap), or of running text 'top-1', 'kl' and 'nll' (per token; windows and blocks of tokens within them are
-- resampled, no interval for fewer than 5 windows). n: questions, or windows of text. position: 0 for the headline.
CREATE TEMP VIEW IF NOT EXISTS v_interval AS
WITH
  ok AS (SELECT cell_key, sample FROM sample WHERE status = 'ok'),
  block AS (SELECT l.* FROM likelihood AS l JOIN ok ON ok.cell_key = l.cell_key AND ok.sample = l.sample)
SELECT
  x.cell_key, x.extractor, x.position,
  CASE WHEN max(x.value NOT IN (0, 1)) THEN 'score' ELSE 'accuracy' END AS measure,
  count(*) AS n, avg(x.value) AS mean, score_low(x.value) AS low, score_high(x.value) AS high
FROM score AS x JOIN ok ON ok.cell_key = x.cell_key AND ok.sample = x.sample
WHERE x.position = 0 AND x.cell_key NOT IN (SELECT cell_key FROM likelihood)
GROUP BY x.cell_key
UNION ALL
SELECT
  cell_key, 'top1', 0, 'top-1', count(DISTINCT sample), 1.0 * sum(n_top1_same) / sum(n_tokens),
  max(0, clustered_low(n_top1_same, n_tokens, sample)), min(1, clustered_high(n_top1_same, n_tokens, sample))
FROM block GROUP BY cell_key
UNION ALL
SELECT
  cell_key, 'mean_kl', 1, 'kl', count(DISTINCT sample), sum(kl) / sum(n_tokens),
  max(0, clustered_low(kl, n_tokens, sample)), clustered_high(kl, n_tokens, sample)
FROM block GROUP BY cell_key
UNION ALL
SELECT
  cell_key, 'nll', 2, 'nll', count(DISTINCT sample), sum(nll) / sum(n_tokens),
  max(0, clustered_low(nll, n_tokens, sample)), clustered_high(nll, n_tokens, sample)
FROM block GROUP BY cell_key;
