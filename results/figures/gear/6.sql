-- Measured bytes by kind, of all samples, layers and tensors, as a fraction of the same tokens at 16 bits.
WITH
  named AS (
    SELECT b.cell_key, b.bytes,
      CASE
        WHEN b.kind = 'codes' THEN '1 codes'
        WHEN b.kind IN ('scales', 'zeros') THEN '2 scales and zeros'
        WHEN b.kind = 'recent' THEN '3 recent tokens, 16 bits'
        WHEN b.kind = 'low_rank' THEN '4 low rank'
        WHEN b.kind IN ('sparse_values', 'sparse_index') THEN '5 sparse'
        ELSE '6 ' || b.kind
      END AS name
    FROM kv_bytes AS b
    JOIN sample AS a ON a.cell_key = b.cell_key AND a.sample = b.sample AND a.status = 'ok'
    WHERE b.cell_key IN (SELECT key FROM entry WHERE is_lossy))
SELECT e.label AS x, substr(n.name, 3) AS series, 100.0 * sum(n.bytes) / e.kv_bytes_fp16 AS y
FROM entry AS e JOIN named AS n ON n.cell_key = e.key
GROUP BY e.label, n.name
ORDER BY min(e.position), n.name;
