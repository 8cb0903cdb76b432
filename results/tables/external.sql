-- Published and imported results; they belong to no experiment.
SELECT source, item, model, method, options, column_name AS "column", value, mark, note
FROM external_result
WHERE :experiment IS NOT NULL
ORDER BY source, item, model, method, options, column_name
