-- Accuracy by the fraction of the prompt, counted from its end, that has a low-rank part.
SELECT task AS series, 100.0 * json_extract(options_json, '$.correct_fraction') AS x, accuracy AS y, low, high
FROM entry
WHERE plugin = 'gear' AND n_scores > 0
ORDER BY task, x;
