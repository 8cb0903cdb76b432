-- Accuracy by the share of the prompt's last tokens that have a low-rank part.
SELECT task AS series, 100.0 * json_extract(options_json, '$.correct_fraction') AS x, accuracy AS y, low, high
FROM entry
WHERE plugin = 'gear' AND n_scores > 0
ORDER BY task, x;
