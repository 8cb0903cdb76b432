-- One point per compressor: size and accuracy; a method is the label without its bits.
WITH
  method AS (
    SELECT *,
      CASE
        WHEN label LIKE '% bits%' THEN rtrim(rtrim(substr(label, 1, instr(label, ' bits') - 1), '0123456789'))
        ELSE label
      END AS name
    FROM entry
    WHERE n_scores > 0)
SELECT task AS panel, name AS series, 100.0 * kv_bytes / kv_bytes_fp16 AS x, accuracy AS y, low, high
FROM method
ORDER BY task, min(position) OVER (PARTITION BY name), position;
