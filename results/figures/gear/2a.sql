-- The error of the prompt's V against the size of the cache, one line a technique: the label up to its comma.
WITH
  error AS (
    SELECT cell_key, avg(v_error) AS y
    FROM sample
    WHERE status = 'ok' AND cell_key IN (SELECT key FROM entry)
    GROUP BY cell_key),
  technique AS (
    SELECT *, substr(label, 1, instr(label || ',', ',') - 1) AS name, 100.0 * kv_bytes / kv_bytes_fp16 AS share
    FROM entry
    WHERE is_lossy)
SELECT t.name AS series, t.share AS x, e.y
FROM technique AS t JOIN error AS e ON e.cell_key = t.key
ORDER BY min(t.position) OVER (PARTITION BY t.name), t.share;
