-- Mean magnitude of each channel of K over the first prompt's tokens; in each layer, channels are sorted by it.
WITH
  channel AS (
    SELECT p.layer, p.value, row_number() OVER (PARTITION BY p.layer ORDER BY p.value, p.step) AS place
    FROM probe AS p
    WHERE p.measure = 'channel_mean_abs' AND p.tensor = 'k' AND p.cell_key = (SELECT min(key) FROM entry)
      AND p.sample = (SELECT min(sample) FROM probe WHERE cell_key = p.cell_key))
SELECT place AS x, layer + 1 AS y, value
FROM channel
ORDER BY layer, place;
