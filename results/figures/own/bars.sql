-- One bar per compressor, one panel per task; of running text its top-1 agreement.
SELECT
  CASE measure WHEN 'top-1' THEN 'top-1 agreement, ' ELSE '' END || task AS panel, label AS x, accuracy AS y, low, high
FROM entry
WHERE n_scores > 0
GROUP BY key
ORDER BY model, task, position;
