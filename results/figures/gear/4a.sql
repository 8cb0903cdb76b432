-- Accuracy by s (r = 4) and by r. GEAR-L has no sparse part.
WITH
  setting AS (
    SELECT *, json_extract(options_json, '$.sparsity') AS sparsity, json_extract(options_json, '$.rank') AS rank
    FROM entry
    WHERE plugin = 'gear' AND n_scores > 0),
  point AS (
    SELECT 'sparsity s [%], r = 4' AS panel, 'GEAR' AS series, 100.0 * sparsity AS x, accuracy, low, high
    FROM setting
    WHERE rank = 4
    UNION ALL
    SELECT 'rank r', 'GEAR', 1.0 * rank, accuracy, low, high
    FROM setting
    WHERE sparsity > 0 AND (rank <> 4 OR abs(sparsity - 0.02) < 1e-9)
    UNION ALL
    SELECT 'rank r', 'GEAR-L', 1.0 * rank, accuracy, low, high
    FROM setting
    WHERE sparsity = 0)
SELECT panel, series, x, avg(accuracy) AS y, avg(low) AS low, avg(high) AS high
FROM point
GROUP BY panel, series, x
ORDER BY panel DESC, series, x;
