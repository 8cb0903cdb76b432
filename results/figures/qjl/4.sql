-- Prompt: prefill and encoding. Decoding: all else. The experiment with grouped heads is named _gqa.
WITH
  shown AS (SELECT *, experiment LIKE '%\_gqa%' ESCAPE '\' AS grouped FROM entry),
  took AS (
    SELECT t.cell_key, t.n_prompt_tokens, t.n_new_tokens, t.repeat,
      sum(CASE WHEN t.phase IN ('prefill', 'encode') THEN t.seconds END) AS prompt_seconds,
      sum(CASE WHEN t.phase IN ('attend', 'other') THEN t.seconds END) AS decode_seconds
    FROM timing AS t
    WHERE t.part = 'all' AND t.cell_key IN (SELECT key FROM shown)
    GROUP BY t.cell_key, t.n_prompt_tokens, t.n_new_tokens, t.batch, t.repeat),
  point AS (
    SELECT 1 AS place, 'prefill and quantize' AS panel, s.label, s.position, t.n_prompt_tokens AS x,
      t.prompt_seconds AS y
    FROM shown AS s JOIN took AS t ON t.cell_key = s.key
    WHERE NOT s.grouped
    UNION ALL
    SELECT 2 + s.grouped,
      'decode ' || t.n_new_tokens || ' tokens' || CASE WHEN s.grouped THEN ', grouped heads' ELSE '' END,
      s.label, s.position, t.n_prompt_tokens, t.decode_seconds
    FROM shown AS s JOIN took AS t ON t.cell_key = s.key)
SELECT panel, label AS series, x, median(y) AS y
FROM point
GROUP BY place, panel, label, x
ORDER BY place, min(position), x;
