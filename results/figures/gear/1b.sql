-- The largest logit difference from the uncompressed cache by step, for the first prompt: decoding the uncompressed
-- answer's tokens (teacher forcing), and decoding its own.
SELECT
  CASE p.measure WHEN 'logit_max_abs' THEN 'teacher forcing' ELSE 'free-running' END AS panel,
  s.label AS series, p.step AS x, p.value AS y
FROM entry AS s JOIN probe AS p ON p.cell_key = s.key
WHERE s.is_lossy AND p.measure IN ('logit_max_abs', 'logit_max_abs_free')
  AND p.sample = (SELECT min(sample) FROM probe WHERE cell_key = s.key AND measure = 'logit_max_abs')
ORDER BY p.measure, s.position, p.step;
