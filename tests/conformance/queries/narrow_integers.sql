-- Integers of few bits or without a sign: with axes, arithmetic is exact; own tables compute in their types.
--: file only directory, packed, h5ad, collection

--: theirs SELECT u::BIGINT - v::BIGINT FROM cell
SELECT u - v FROM cell;
--: theirs SELECT u::BIGINT + v::BIGINT FROM cell
SELECT u + v FROM cell;
--: theirs SELECT u::BIGINT * 2 - v FROM cell
SELECT u * 2 - v FROM cell;
--: theirs SELECT -u::BIGINT, -u8::BIGINT, -i8::BIGINT, -i16::BIGINT FROM cell
SELECT -u, -u8, -i8, -i16 FROM cell;
--: theirs SELECT u8::BIGINT - i8, u8::BIGINT + u8, u8::BIGINT * u8, i8::BIGINT * i8 FROM cell
SELECT u8 - i8, u8 + u8, u8 * u8, i8 * i8 FROM cell;
--: theirs SELECT abs(i8::BIGINT), abs(i16::BIGINT) FROM cell
SELECT abs(i8), abs(i16) FROM cell;
--: theirs SELECT i8::BIGINT + i16, i8::BIGINT - u, u8::BIGINT - x FROM cell
SELECT i8 + i16, i8 - u, u8 - x FROM cell;
--: theirs SELECT name FROM cell WHERE u::BIGINT - v::BIGINT < 0
SELECT name FROM cell WHERE u - v < 0;
--: theirs SELECT name FROM cell WHERE u8::BIGINT + u8 > 300 AND x > 1
SELECT name FROM cell WHERE u8 + u8 > 300 AND x > 1;
--: theirs SELECT sum(u::BIGINT - v), max(u8::BIGINT - i8), avg(u8::BIGINT * u8) FROM cell
SELECT sum(u - v), max(u8 - i8), avg(u8 * u8) FROM cell;
--: theirs SELECT x, sum(u8::BIGINT - i8) FROM cell GROUP BY x
SELECT x, sum(u8 - i8) FROM cell GROUP BY x;
--: theirs SELECT min(u)::BIGINT - max(v)::BIGINT, max(u8)::BIGINT + max(u8) FROM cell
SELECT min(u) - max(v), max(u8) + max(u8) FROM cell;
--: theirs SELECT u::BIGINT - v::BIGINT AS d, count(*) FROM cell GROUP BY 1
SELECT u - v AS d, count(*) FROM cell GROUP BY u - v;
--: theirs SELECT p::BIGINT - q::BIGINT FROM (SELECT u AS p, v AS q FROM cell)
SELECT p - q FROM (SELECT u AS p, v AS q FROM cell);
--: theirs WITH t AS (SELECT u::BIGINT p, v::BIGINT q FROM cell) SELECT p - q FROM t
WITH t AS (SELECT u p, v q FROM cell) SELECT p - q FROM t;
--: theirs SELECT a.u::BIGINT - b.v::BIGINT FROM cell a JOIN cell b ON a.x = b.x
SELECT a.u - b.v FROM cell a JOIN cell b ON a.x = b.x;
--: theirs SELECT u::BIGINT - (SELECT max(v)::BIGINT FROM cell) FROM cell
SELECT u - (SELECT max(v) FROM cell) FROM cell;
--: theirs SELECT first_value(u::BIGINT) OVER (ORDER BY name) - v FROM cell
SELECT first_value(u) OVER (ORDER BY name) - v FROM cell;
--: theirs SELECT u::BIGINT - lag(u::BIGINT) OVER (ORDER BY name) FROM cell
SELECT u - lag(u) OVER (ORDER BY name) FROM cell;
--: theirs SELECT CASE WHEN b THEN u::BIGINT ELSE v::BIGINT END - v FROM cell
SELECT CASE WHEN b THEN u ELSE v END - v FROM cell;
--: theirs SELECT coalesce(u::BIGINT, 0) - v, greatest(u, v)::BIGINT - v - v FROM cell
SELECT coalesce(u, 0) - v, greatest(u, v) - v - v FROM cell;
--: theirs SELECT d FROM (SELECT u::BIGINT - v::BIGINT AS d FROM cell UNION ALL SELECT x FROM gene)
SELECT d FROM (SELECT u - v AS d FROM cell UNION ALL SELECT x FROM gene);
--: theirs SELECT u8::BIGINT + 1, u8::BIGINT * 2, u8::BIGINT - 300 FROM cell
SELECT u8 + 1, u8 * 2, u8 - 300 FROM cell;
SELECT u8 * 0.5, u + 0.5 FROM cell;
SELECT sum(u), sum(u8), sum(i8), avg(u), max(i16) FROM cell;
SELECT u8, i8, u, v, i16 FROM cell;
SELECT u = v, u8 > i8, i8 < 0, u8 = 200 FROM cell;
--: datafusion integers are divided as integers
SELECT u / 2, u8 / 3, u % 7, i8 % 5 FROM cell;
SELECT name FROM cell WHERE u BETWEEN 1 AND 5000000 AND i8 IN (-128, -91);
SELECT huge FROM cell;
SELECT max(huge), min(huge), count(DISTINCT huge) FROM cell;
SELECT huge = 1 AS z, huge FROM cell;
--: theirs SELECT huge = 1 AS z, -u::BIGINT AS y FROM cell
SELECT huge = 1 AS z, -u AS y FROM cell;
--: theirs SELECT huge, u::BIGINT - v::BIGINT FROM cell
SELECT huge, u - v FROM cell;
--: theirs SELECT name FROM cell WHERE huge > 8 AND u::BIGINT - v::BIGINT < 0
SELECT name FROM cell WHERE huge > 8 AND u - v < 0;
--: theirs SELECT sum(huge::DECIMAL(38, 0)) FROM cell
SELECT sum(huge::DECIMAL(38, 0)) FROM cell;
--: theirs SELECT name, u::BIGINT - v, rank() OVER (ORDER BY u) FROM cell
SELECT name, u - v, rank() OVER (ORDER BY u) FROM cell;
--: theirs SELECT name, sum(u::BIGINT - v) OVER (ORDER BY u) FROM cell
SELECT name, sum(u - v) OVER (ORDER BY u) FROM cell;
--: theirs SELECT name, row_number() OVER (PARTITION BY u8 ORDER BY v) AS r FROM cell WHERE u::BIGINT - v::BIGINT < 0 OR huge > 9223372036854775808
SELECT name, row_number() OVER (PARTITION BY u8 ORDER BY v) AS r FROM cell WHERE u - v < 0 OR huge > 9223372036854775808;
--: ordered
--: theirs SELECT name FROM cell ORDER BY u::BIGINT - v::BIGINT, name
SELECT name FROM cell ORDER BY u - v, name;
SELECT CAST(u AS INT), CAST(u8 AS VARCHAR), v::DOUBLE FROM cell WHERE u < 1000000000;
SELECT x, avg(u8), min(u), max(v) FROM cell GROUP BY x;
SELECT u8 & 3, i8 & 15, u | 1 FROM cell;

-- Beside floats integers have the type of the float, also where that rounds them.
SELECT coalesce(u, f32) AS a, coalesce(f32, u) AS b, v + f32 AS c, greatest(huge, f32) AS d FROM cell;
SELECT CASE WHEN f32 > 1 THEN f32 ELSE v END AS a, u = f32 AS b, coalesce(v, CAST(f32 AS DOUBLE)) AS c FROM cell;
SELECT name FROM cell WHERE x = f32 OR u = CAST(f32 AS DOUBLE) OR huge = f32;

-- Sums of unsigned counts beside a signed 0 have all their digits.
--: theirs SELECT sum(v)::BIGINT AS a, sum(v)::BIGINT AS b FROM cell
SELECT nvl(sum(v), 0) AS a, ifnull(sum(v), -1) AS b FROM cell;
--: theirs SELECT 9007199254740993 AS a, 9007199254740993 AS b
SELECT coalesce(sum(huge), 0) AS a, IfNull(sum(huge), -1) AS b FROM cell WHERE huge = 9007199254740993 AND name < 'c05';

-- Unsigned numbers beyond Int64: decimals beside constants, an error beside columns that says what to write.
--: datafusion DuckDB has no wider type for it
SELECT huge + 1 AS a, huge % 10 AS b FROM cell;
--: error CAST\(huge AS DECIMAL\(20, 0\)\)
SELECT huge - x FROM cell;
--: error CAST\(huge AS DECIMAL\(20, 0\)\)
SELECT huge - huge FROM cell;
SELECT CAST(huge AS DECIMAL(20, 0)) - CAST(x AS DECIMAL(20, 0)) AS d FROM cell;
SELECT huge FROM cell WHERE f * 2 >= 0;
