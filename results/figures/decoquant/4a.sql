-- Error of K and V by bits. One line per label, without its bits.
WITH
  error AS (
    SELECT cell_key, tensor, avg(value) AS y
    FROM probe
    WHERE measure = 'rel_fro' AND head = -1 AND tensor IN ('k', 'v') AND cell_key IN (SELECT key FROM entry)
    GROUP BY cell_key, tensor),
  method AS (
    SELECT *, rtrim(rtrim(substr(label, 1, instr(label, ' bits') - 1), '0123456789'), ' ,') AS name
    FROM entry
    WHERE label LIKE '% bits')
SELECT upper(e.tensor) AS panel, m.name AS series, json_extract(m.options_json, '$.bits') AS x, e.y
FROM method AS m JOIN error AS e ON e.cell_key = m.key
ORDER BY e.tensor, min(m.position) OVER (PARTITION BY m.name), x;
