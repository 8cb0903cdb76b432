-- Candidates of a search whose accuracy was measured, best first, with the number of layers at each width.
WITH
  counted AS (
    SELECT
      search_key, candidate, sum(value = 8) AS at_8, sum(value = 4) AS at_4, sum(value = 2) AS at_2
    FROM search_layer
    GROUP BY search_key, candidate),
  shown AS (
    SELECT
      s.model || ', ' || s.tasks || ', at most ' || printf('%g', 100 * s.budget_share) || ' %' AS search,
      'candidate ' || c.rank AS name, c.rank, c.n_correct, c.n_samples, 100.0 * c.kv_share AS kv, at_8, at_4, at_2
    FROM v_search_candidate AS c
    JOIN search AS s ON s.key = c.search_key
    JOIN chosen ON chosen.experiment = s.experiment
    JOIN counted ON counted.search_key = c.search_key AND counted.candidate = c.candidate
    WHERE c.rank IS NOT NULL AND c.n_correct IS NOT NULL)
SELECT
  search AS row_group, name AS row, rank AS row_order, 'accuracy' AS "column", 1 AS column_order,
  100.0 * n_correct / n_samples AS value, 100.0 * wilson_low(n_correct, n_samples) AS low,
  100.0 * wilson_high(n_correct, n_samples) AS high, n_samples AS n
FROM shown
UNION ALL
SELECT search, name, rank, 'at_8', 2, at_8, NULL, NULL, NULL FROM shown
UNION ALL
SELECT search, name, rank, 'at_4', 3, at_4, NULL, NULL, NULL FROM shown
UNION ALL
SELECT search, name, rank, 'at_2', 4, at_2, NULL, NULL, NULL FROM shown
UNION ALL
SELECT search, name, rank, 'kv', 5, kv, NULL, NULL, NULL FROM shown;
