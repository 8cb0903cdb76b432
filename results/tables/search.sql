-- One row per candidate of every search, best first: accuracy of those re-scored, and the number of layers at each
-- width. :experiment is a name; 'all' or NULL: every search.
WITH
  counted AS (
    SELECT
      search_key, candidate,
      sum(value = 8) AS layers_at_8, sum(value = 4) AS layers_at_4, sum(value = 2) AS layers_at_2
    FROM search_layer
    GROUP BY search_key, candidate),
  spelled AS (
    SELECT search_key, candidate, group_concat(n_layers || ' x ' || value, ', ') AS layers
    FROM (
      SELECT search_key, candidate, value, count(*) AS n_layers
      FROM search_layer
      GROUP BY search_key, candidate, value
      ORDER BY search_key, candidate, value DESC)
    GROUP BY search_key, candidate)
SELECT
  s.model, s.plugin, s.tasks, 100.0 * s.budget_share AS budget_percent, c.rank, c.nll_rank,
  100.0 * c.n_correct / c.n_samples AS accuracy_percent,
  100.0 * wilson_low(c.n_correct, c.n_samples) AS low_percent,
  100.0 * wilson_high(c.n_correct, c.n_samples) AS high_percent,
  layers_at_8, layers_at_4, layers_at_2, layers,
  c.nll, c.kv_bytes, 100.0 * c.kv_share AS kv_percent, c.n_samples, c.family, s.option, c.plan, c.error, s.key
FROM v_search_candidate AS c
JOIN search AS s ON s.key = c.search_key
LEFT JOIN counted ON counted.search_key = c.search_key AND counted.candidate = c.candidate
LEFT JOIN spelled ON spelled.search_key = c.search_key AND spelled.candidate = c.candidate
WHERE ifnull(:experiment, 'all') IN ('all', s.experiment)
ORDER BY s.model, s.plugin, s.tasks, s.budget_share, s.key, c.rank IS NULL, c.rank, c.candidate;
