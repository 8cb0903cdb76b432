-- The largest difference of a logit from the exact cache's by step, of the first prompt: with the exact answer's
-- tokens fed in, and running free.
SELECT
  CASE p.measure WHEN 'logit_max_abs' THEN 'fed with the exact answer' ELSE 'running free' END AS panel,
  s.label AS series, p.step AS x, p.value AS y
FROM entry AS s JOIN probe AS p ON p.cell_key = s.key
WHERE s.is_lossy AND p.measure IN ('logit_max_abs', 'logit_max_abs_free')
  AND p.sample = (SELECT min(sample) FROM probe WHERE cell_key = s.key AND measure = 'logit_max_abs')
ORDER BY p.measure, s.position, p.step;
