-- Two panels, at the largest batch of each compressor: the largest peak, and tokens per second of the median repeat.
WITH
  largest AS (
    SELECT cell_key, max(batch) AS batch FROM timing WHERE cell_key IN (SELECT key FROM entry) GROUP BY cell_key),
  bar AS (
    SELECT 'peak memory [GiB]' AS panel, m.cell_key, max(m.bytes) / 1073741824.0 AS y
    FROM memory AS m JOIN largest USING (cell_key, batch)
    WHERE m.part = 'peak'
    GROUP BY m.cell_key
    UNION ALL
    SELECT 'throughput [tokens/s]', t.cell_key, t.batch * t.n_new_tokens / median(t.seconds)
    FROM timing AS t JOIN largest USING (cell_key, batch)
    WHERE t.phase = 'total' AND t.part = 'all'
    GROUP BY t.cell_key)
SELECT b.panel, s.label AS x, b.y
FROM entry AS s JOIN bar AS b ON b.cell_key = s.key
ORDER BY b.panel, s.position;
