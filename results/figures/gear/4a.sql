-- Accuracy by s (r = 4) and by r. GEAR-L is what has no sparse part.
WITH
  shown AS (
    SELECT c.key, c.task, c.plugin, c.options_json, c.is_lossy, e.position,
      CASE WHEN e.label <> '' THEN e.label ELSE trim(c.plugin || ' ' || c.options_label) END AS label
    FROM experiment_cell AS e JOIN cell AS c ON c.key = e.cell_key
    WHERE e.experiment = :experiment),
  accuracy AS (
    SELECT s.cell_key, 100.0 * avg(s.value) AS y, 100.0 * score_low(s.value) AS low, 100.0 * score_high(s.value) AS high
    FROM score AS s
    JOIN sample AS a ON a.cell_key = s.cell_key AND a.sample = s.sample AND a.status = 'ok'
    WHERE s.position = 0 AND s.cell_key IN (SELECT key FROM shown)
    GROUP BY s.cell_key),
  setting AS (
    SELECT s.*, json_extract(options_json, '$.sparsity') AS sparsity, json_extract(options_json, '$.rank') AS rank
    FROM shown AS s
    WHERE plugin = 'gear'),
  point AS (
    SELECT 'sparsity s [%], r = 4' AS panel, 'GEAR' AS series, 100.0 * sparsity AS x, key FROM setting WHERE rank = 4
    UNION ALL
    SELECT 'rank r', 'GEAR', 1.0 * rank, key FROM setting
    WHERE sparsity > 0 AND (rank <> 4 OR abs(sparsity - 0.02) < 1e-9)
    UNION ALL
    SELECT 'rank r', 'GEAR-L', 1.0 * rank, key FROM setting WHERE sparsity = 0)
SELECT p.panel, p.series, p.x, avg(a.y) AS y, avg(a.low) AS low, avg(a.high) AS high
FROM point AS p JOIN accuracy AS a ON a.cell_key = p.key
GROUP BY p.panel, p.series, p.x
ORDER BY p.panel DESC, p.series, p.x;
