-- The error of the prompt's V against the size of the cache, one line a technique: the label up to its comma.
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
    GROUP BY cell_key),
  error AS (
    SELECT cell_key, avg(v_error) AS y
    FROM sample
    WHERE status = 'ok' AND cell_key IN (SELECT key FROM shown)
    GROUP BY cell_key),
  technique AS (SELECT *, substr(label, 1, instr(label || ',', ',') - 1) AS name FROM shown WHERE is_lossy)
SELECT t.name AS series, z.share AS x, e.y
FROM technique AS t
JOIN error AS e ON e.cell_key = t.key
JOIN size AS z ON z.cell_key = t.key
ORDER BY min(t.position) OVER (PARTITION BY t.name), z.share;
