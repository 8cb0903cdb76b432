-- Two bars per quantizer: alone, and with the suffix ' + GEAR' in its label.
SELECT
  task AS panel, replace(label, ' + GEAR', '') AS x,
  CASE WHEN label LIKE '% + GEAR' THEN 'with GEAR' ELSE 'alone' END AS series, accuracy AS y, low, high
FROM entry
WHERE is_lossy AND n_scores > 0
ORDER BY task, position;
