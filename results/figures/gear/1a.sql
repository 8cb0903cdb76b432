-- One bar per compressor and tensor: relative error of a prompt's K and V, mean over layers; low and high: smallest and
-- largest mean of a layer.
WITH
  layer AS (
    SELECT cell_key, tensor, layer, avg(value) AS error
    FROM probe
    WHERE measure = 'rel_fro' AND head = -1 AND tensor IN ('k', 'v') AND cell_key IN (SELECT key FROM entry)
    GROUP BY cell_key, tensor, layer)
SELECT s.label AS x, upper(l.tensor) AS series, avg(l.error) AS y, min(l.error) AS low, max(l.error) AS high
FROM entry AS s JOIN layer AS l ON l.cell_key = s.key
WHERE s.is_lossy
GROUP BY s.label, l.tensor
ORDER BY min(s.position), l.tensor;
