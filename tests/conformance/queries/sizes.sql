-- Functions whose arguments say how large their results are: a result that fits is that of the engine.
--: file only directory, own

SELECT repeat(s, x) AS v FROM cell;
SELECT repeat('x', NULL) IS NULL AS v FROM cell;
SELECT name FROM cell WHERE repeat(s, y * 2000) = '';
SELECT length(repeat(repeat('x', 6000), 6000)) AS v FROM cell LIMIT 1;
--: theirs SELECT lpad(name, CAST(x + 1 AS INT), '0') AS v, '' AS w, '' AS u, true AS n FROM cell
SELECT lpad(name, x + 1, '0') AS v, lpad(name, -x) AS w, rpad('xyz', -5, 'ab') AS u, lpad(NULL, -5) IS NULL AS n FROM cell;
--: theirs SELECT [x, x] AS v FROM cell
SELECT array_repeat(x, 2) AS v FROM cell;
--: rows [[100]]
SELECT DISTINCT array_length(array_repeat(array_repeat(x, 100), 100)) AS v FROM cell;
--: rows [[8000000]]
SELECT array_length(array_repeat('x', 8000000)) AS v FROM cell LIMIT 1;
--: theirs SELECT [x, 7] AS v FROM cell
SELECT array_resize([x], 2, 7) AS v FROM cell;
SELECT range(x) AS v, generate_series(x, 0, -1) AS w FROM cell;
--: rows [[25]]
SELECT array_length(generate_series(TIMESTAMP '1970-01-01', TIMESTAMP '1970-01-02', INTERVAL '1 hour')) AS v;
SELECT length(replace(repeat('a', 1000), 'a', repeat('b', 1000))) AS v, replace(name, 'c', 'b') AS w FROM cell;
SELECT levenshtein(repeat('a', 3), repeat(name, x)) AS v FROM cell;

-- The same in all places of a query.
--: ordered
SELECT repeat(name, x + 0) AS k, count(*) AS c FROM cell GROUP BY repeat(name, x + 0) ORDER BY repeat(name, x + 0) DESC;
SELECT x FROM cell WHERE repeat(name, x + 1) = 'c00c00';

-- Series that are tables are computed row by row, and have no bound.
--: theirs SELECT 20000000 AS n
SELECT count(*) AS n FROM generate_series(1, 20000000);
--: theirs SELECT count(*) * 10000 AS n FROM cell
SELECT count(*) AS n FROM cell, range(0, 10000);
--: theirs SELECT count(*) * 5 AS n FROM cell
SELECT count(*) AS n FROM cell JOIN generate_series(1, 5) AS g ON true;
--: theirs SELECT 1000000 AS n
SELECT count(*) AS n FROM (SELECT unnest(generate_series(1, 1000000)));
