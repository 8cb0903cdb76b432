-- Error of the first layer's V (from a probe) against cache size (from the eval cells of the same label); one line per
-- technique: the label up to its comma.
WITH
  error AS (
    SELECT e.label, min(e.position) AS position, avg(p.value) AS y
    FROM entry AS e JOIN probe AS p ON p.cell_key = e.key
    WHERE e.is_lossy AND p.measure = 'rel_fro' AND p.head = -1 AND p.tensor = 'v' AND p.layer = 0
    GROUP BY e.label),
  size AS (
    SELECT label, 100.0 * sum(kv_bytes) / sum(kv_bytes_fp16) AS share
    FROM entry
    WHERE kind = 'eval' AND n_ok > 0
    GROUP BY label),
  technique AS (SELECT *, substr(label, 1, instr(label || ',', ',') - 1) AS name FROM error)
SELECT t.name AS series, z.share AS x, t.y
FROM technique AS t JOIN size AS z USING (label)
ORDER BY min(t.position) OVER (PARTITION BY t.name), z.share;
