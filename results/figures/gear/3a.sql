-- Fraction of the total time by part of the compressor's work, at the largest batch. The rest is the model.
WITH
  part AS (
    SELECT t.cell_key, t.part, sum(t.seconds) AS seconds
    FROM timing AS t
    WHERE t.cell_key IN (SELECT key FROM entry) AND t.phase <> 'total' AND t.part <> 'all'
      AND t.batch = (SELECT max(batch) FROM timing WHERE cell_key = t.cell_key)
    GROUP BY t.cell_key, t.part),
  whole AS (
    SELECT t.cell_key, sum(t.seconds) AS seconds
    FROM timing AS t
    WHERE t.cell_key IN (SELECT key FROM entry) AND t.phase = 'total' AND t.part = 'all'
      AND t.batch = (SELECT max(batch) FROM timing WHERE cell_key = t.cell_key)
    GROUP BY t.cell_key),
  named AS (
    SELECT s.key, s.label, s.position, p.part AS name, p.seconds,
      CASE p.part WHEN 'quantize' THEN 1 WHEN 'low_rank' THEN 2 WHEN 'sparse' THEN 3 ELSE 4 END AS place
    FROM entry AS s JOIN part AS p ON p.cell_key = s.key
    UNION ALL
    SELECT s.key, s.label, s.position, 'other',
      w.seconds - ifnull((SELECT sum(seconds) FROM part WHERE cell_key = s.key), 0), 5
    FROM entry AS s JOIN whole AS w ON w.cell_key = s.key
    WHERE s.is_lossy)
SELECT
  n.label AS x,
  CASE n.name WHEN 'quantize' THEN 'quantization' WHEN 'low_rank' THEN 'low rank' ELSE n.name END AS series,
  100.0 * n.seconds / w.seconds AS y
FROM named AS n JOIN whole AS w ON w.cell_key = n.key
ORDER BY n.place, n.position;
