-- Cache size of one cell by layer, tensor and kind: mean bytes per sample
SELECT b.layer, b.stage, b.tensor, b.kind, 1.0 * sum(b.bytes) / (SELECT count(*) FROM sample AS s
  WHERE s.cell_key = b.cell_key AND s.status = 'ok') AS mean_bytes
FROM kv_bytes AS b
WHERE b.cell_key LIKE :cell_key || '%' AND :cell_key <> ''
GROUP BY b.cell_key, b.layer, b.stage, b.tensor, b.kind
