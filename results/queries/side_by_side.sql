-- Generations of two cells on the same questions, differing ones first (the first 12 digits of a key are enough)
SELECT a.sample, a.gold, a.generation AS generation_a, b.generation AS generation_b, sa.value AS score_a,
  sb.value AS score_b
FROM sample AS a
JOIN sample AS b ON b.sample = a.sample AND b.prompt_sha256 = a.prompt_sha256
LEFT JOIN score AS sa ON sa.cell_key = a.cell_key AND sa.sample = a.sample AND sa.position = 0
LEFT JOIN score AS sb ON sb.cell_key = b.cell_key AND sb.sample = b.sample AND sb.position = 0
WHERE a.cell_key = (SELECT key FROM cell WHERE key LIKE :cell_a || '%' AND :cell_a <> '')
  AND b.cell_key = (SELECT key FROM cell WHERE key LIKE :cell_b || '%' AND :cell_b <> '')
ORDER BY sa.value = sb.value, a.token_ids_json = b.token_ids_json, a.sample
