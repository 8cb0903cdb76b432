-- The largest peak of all repeats.
SELECT s.label AS series, m.n_prompt_tokens AS x, max(m.bytes) / 1073741824.0 AS y
FROM entry AS s JOIN memory AS m ON m.cell_key = s.key AND m.part = 'peak'
GROUP BY s.key, m.n_prompt_tokens
ORDER BY s.position, m.n_prompt_tokens;
