-- The error of V in the first layer against the size of the cache, one line a technique: the label up to its comma.
WITH
  shown AS (
    SELECT c.key, c.task, c.plugin, c.options_json, c.is_lossy, e.position,
      CASE WHEN e.label <> '' THEN e.label ELSE trim(c.plugin || ' ' || c.options_label) END AS label
    FROM experiment_cell AS e JOIN cell AS c ON c.key = e.cell_key
    WHERE e.experiment = :experiment),
  size AS (
    SELECT cell_key, 100.0 * sum(kv_bytes) / sum(kv_bytes_fp16) AS share
    FROM sample
    WHERE status = 'ok' AND cell_key IN (SELECT key FROM shown)
    GROUP BY cell_key)
SELECT substr(s.label, 1, instr(s.label || ',', ',') - 1) AS series, z.share AS x, avg(p.value) AS y
FROM shown AS s
JOIN probe AS p ON p.cell_key = s.key AND p.measure = 'rel_fro' AND p.tensor = 'v' AND p.layer = 0 AND p.head = -1
JOIN size AS z ON z.cell_key = s.key
WHERE s.is_lossy
GROUP BY s.key
ORDER BY min(s.position) OVER (PARTITION BY substr(s.label, 1, instr(s.label || ',', ',') - 1)), z.share;
