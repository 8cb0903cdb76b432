-- One point a compressor, its size and its accuracy; a method is the label up to its bits.
WITH
  shown AS (
    SELECT c.key, c.task, c.plugin, c.options_json, c.is_lossy, e.position,
      CASE WHEN e.label <> '' THEN e.label ELSE trim(c.plugin || ' ' || c.options_label) END AS label
    FROM experiment_cell AS e JOIN cell AS c ON c.key = e.cell_key
    WHERE e.experiment = :experiment),
  accuracy AS (
    SELECT s.cell_key, 100.0 * avg(s.value) AS y, 100.0 * score_low(s.value) AS low, 100.0 * score_high(s.value) AS high
    FROM score AS s
    JOIN sample AS a ON a.cell_key = s.cell_key AND a.sample = s.sample AND a.status = 'ok'
    WHERE s.position = 0 AND s.cell_key IN (SELECT key FROM shown)
    GROUP BY s.cell_key),
  size AS (
    SELECT cell_key, 100.0 * sum(kv_bytes) / sum(kv_bytes_fp16) AS share
    FROM sample
    WHERE status = 'ok' AND cell_key IN (SELECT key FROM shown)
    GROUP BY cell_key),
  method AS (
    SELECT *,
      CASE
        WHEN label LIKE '% bits%' THEN rtrim(rtrim(substr(label, 1, instr(label, ' bits') - 1), '0123456789'))
        ELSE label
      END AS name
    FROM shown)
SELECT m.task AS panel, m.name AS series, z.share AS x, a.y, a.low, a.high
FROM method AS m
JOIN accuracy AS a ON a.cell_key = m.key
JOIN size AS z ON z.cell_key = m.key
ORDER BY m.task, min(m.position) OVER (PARTITION BY m.name), m.position;
