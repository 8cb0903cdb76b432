-- Two bars a quantizer: alone, and with ' + GEAR' behind its label.
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
    GROUP BY s.cell_key)
SELECT
  s.task AS panel, replace(s.label, ' + GEAR', '') AS x,
  CASE WHEN s.label LIKE '% + GEAR' THEN 'with GEAR' ELSE 'alone' END AS series, a.y, a.low, a.high
FROM shown AS s JOIN accuracy AS a ON a.cell_key = s.key
WHERE s.is_lossy
ORDER BY s.task, s.position;
