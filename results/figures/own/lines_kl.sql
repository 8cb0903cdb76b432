-- KL from full precision by measured size, one line per plugin (or one per value of a categorical option); for each
-- text one panel for quantization and one for token eviction.
WITH
  point AS (
    SELECT
      *, substr(plugin, 1, instr(plugin || '/', '/') - 1) AS head
    FROM entry
    WHERE kv_bytes_fp16 > 0 AND kl > 0
    GROUP BY key),
  word AS (
    SELECT p.key, p.plugin, o.key AS name, o.value
    FROM point AS p, json_each(p.options_json) AS o
    WHERE o.type = 'text' AND o.value NOT GLOB '[0-9]*'),
  several AS (SELECT plugin, name FROM word GROUP BY plugin, name HAVING count(DISTINCT value) > 1),
  said AS (SELECT key, group_concat(value, ' ') AS words FROM word JOIN several USING (plugin, name) GROUP BY key)
SELECT
  task || CASE WHEN bits < 16 THEN ': quantization' ELSE ': token eviction' END AS panel,
  CASE WHEN plugin IN (head, head || '/' || head) THEN head ELSE plugin END || ifnull(' ' || words, '') AS series,
  100.0 * kv_bytes / kv_bytes_fp16 AS x, 1000 * kl AS y
FROM point LEFT JOIN said USING (key)
ORDER BY model, panel, series, x;
