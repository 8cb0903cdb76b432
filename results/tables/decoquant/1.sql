-- Settings each method was run in: quantized weights, quantized K and V, both; and whether none of these runs needed
-- calibration texts. A method is the first word of a label; with an uncompressed cache, weights are rounded to nearest.
WITH
  run AS (
    SELECT
      *, plugin <> 'full' AS has_cache, json_extract(model_json, '$.quantization.weights') IS NOT NULL AS has_weights,
      json_extract(model_json, '$.quantization.smooth_quant') IS NOT NULL AS is_smoothed,
      substr(label, 1, instr(label || ' ', ' ') - 1) AS first_word
    FROM entry
    WHERE n_ok > 0),
  setting AS (
    SELECT
      CASE WHEN is_smoothed THEN 'SmoothQuant' WHEN NOT has_cache AND has_weights THEN 'RTN' ELSE first_word END
        AS method,
      CASE
        WHEN has_cache AND has_weights THEN 'WxAx'
        WHEN has_cache THEN 'W16Ax'
        WHEN has_weights THEN 'WxA16'
      END AS name,
      is_smoothed OR instr(options_json, '"calibration":{') > 0 AS reads_texts, position, key
    FROM run)
SELECT
  method AS row, min(position) AS row_order, name AS "column",
  CASE name WHEN 'WxA16' THEN 1 WHEN 'W16Ax' THEN 2 ELSE 3 END AS column_order, 'yes' AS value,
  group_concat(key, ' ') AS cells
FROM setting
WHERE name IS NOT NULL
GROUP BY method, name
UNION ALL
SELECT
  method, min(position), 'data-free', 4, CASE WHEN max(reads_texts) THEN 'no' ELSE 'yes' END, group_concat(key, ' ')
FROM setting
WHERE name IS NOT NULL
GROUP BY method;
