-- One bar per compressor, one panel per task.
SELECT task AS panel, label AS x, accuracy AS y, low, high
FROM entry
WHERE n_scores > 0
GROUP BY key
ORDER BY model, task, position;
