-- Measured bytes by kind, of all samples, layers and tensors, as a share of the same tokens at 16 bits.
WITH
  shown AS (
    SELECT c.key, c.task, c.plugin, c.options_json, c.is_lossy, e.position,
      CASE WHEN e.label <> '' THEN e.label ELSE trim(c.plugin || ' ' || c.options_label) END AS label
    FROM experiment_cell AS e JOIN cell AS c ON c.key = e.cell_key
    WHERE e.experiment = :experiment),
  exact AS (
    SELECT cell_key, sum(kv_bytes_fp16) AS bytes
    FROM sample
    WHERE status = 'ok' AND cell_key IN (SELECT key FROM shown)
    GROUP BY cell_key),
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
    WHERE b.cell_key IN (SELECT key FROM shown WHERE is_lossy))
SELECT s.label AS x, substr(n.name, 3) AS series, 100.0 * sum(n.bytes) / e.bytes AS y
FROM shown AS s
JOIN exact AS e ON e.cell_key = s.key
JOIN named AS n ON n.cell_key = s.key
GROUP BY s.label, n.name
ORDER BY min(s.position), n.name;
