-- Error of K and V by bits. One line a label up to its bits.
WITH
  shown AS (
    SELECT c.key, c.task, c.plugin, c.options_json, c.is_lossy, e.position,
      CASE WHEN e.label <> '' THEN e.label ELSE trim(c.plugin || ' ' || c.options_label) END AS label
    FROM experiment_cell AS e JOIN cell AS c ON c.key = e.cell_key
    WHERE e.experiment = :experiment),
  error AS (
    SELECT cell_key, 'k' AS tensor, avg(k_error) AS y FROM sample WHERE status = 'ok'
      AND cell_key IN (SELECT key FROM shown) GROUP BY cell_key
    UNION ALL
    SELECT cell_key, 'v', avg(v_error) FROM sample WHERE status = 'ok'
      AND cell_key IN (SELECT key FROM shown) GROUP BY cell_key),
  method AS (
    SELECT *, rtrim(rtrim(substr(label, 1, instr(label, ' bits') - 1), '0123456789'), ' ,') AS name
    FROM shown
    WHERE label LIKE '% bits')
SELECT upper(e.tensor) AS panel, m.name AS series, json_extract(m.options_json, '$.bits') AS x, e.y
FROM method AS m JOIN error AS e ON e.cell_key = m.key
ORDER BY e.tensor, min(m.position) OVER (PARTITION BY m.name), x;
