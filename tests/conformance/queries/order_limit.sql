-- ORDER BY, LIMIT and OFFSET: orders that are total, and counts of those that are not.
--: file ordered

SELECT name FROM cell ORDER BY name;
SELECT name FROM cell ORDER BY name DESC;
SELECT name, x FROM cell ORDER BY x, name;
SELECT name, x FROM cell ORDER BY x DESC, name;
SELECT name FROM cell ORDER BY x DESC, name DESC;
SELECT name, k FROM cell ORDER BY k NULLS LAST, name;
SELECT name, k FROM cell ORDER BY k NULLS FIRST, name;
SELECT name, k FROM cell ORDER BY k DESC NULLS FIRST, name;
SELECT name, k FROM cell ORDER BY k DESC NULLS LAST, name;
SELECT name, donor FROM cell ORDER BY donor NULLS LAST, name;
SELECT name, s FROM cell ORDER BY s, name;
SELECT name, f FROM cell ORDER BY f NULLS FIRST, name;
SELECT name, edge FROM cell ORDER BY edge + 0.0 NULLS LAST, name;
SELECT name, b FROM cell ORDER BY b, name;
SELECT name, maybe FROM cell ORDER BY maybe NULLS FIRST, name DESC;
SELECT name, huge FROM cell ORDER BY huge, name;
SELECT name, i8 FROM cell ORDER BY i8, name;
SELECT x, name FROM cell ORDER BY 1, 2;
SELECT x, name FROM cell ORDER BY 1 DESC, 2 DESC;
SELECT x AS z, name AS n FROM cell ORDER BY z, n;
SELECT name, x + y AS total FROM cell ORDER BY total, name;
SELECT name FROM cell ORDER BY x + y, name;
SELECT name FROM cell ORDER BY -x, name;
SELECT name FROM cell ORDER BY x % 3, x, name;
SELECT name FROM cell ORDER BY upper(s), s, name;
SELECT name FROM cell ORDER BY length(s), name;
SELECT name FROM cell ORDER BY k IS NULL, k, name;
SELECT name FROM cell ORDER BY CASE WHEN b THEN 0 ELSE 1 END, name;
SELECT name FROM cell ORDER BY coalesce(k, 99), name;
SELECT name FROM cell ORDER BY (x), name;
SELECT name FROM cell ORDER BY "order";
SELECT name FROM cell ORDER BY "two words", "order";
SELECT name FROM cell c ORDER BY c.x, c.name;
SELECT -x AS x, name FROM cell ORDER BY x, name;
SELECT name FROM cell ORDER BY name LIMIT 3;
SELECT name FROM cell ORDER BY name LIMIT 3 OFFSET 2;
SELECT name FROM cell ORDER BY name OFFSET 20;
SELECT name FROM cell ORDER BY name OFFSET 100;
SELECT name FROM cell ORDER BY name LIMIT 0;
SELECT name FROM cell ORDER BY name LIMIT 1000;
SELECT name FROM cell ORDER BY name LIMIT 1 + 1;
SELECT name FROM cell ORDER BY name LIMIT NULL;
--: error LIMIT n BY is no SQL here
SELECT name FROM cell LIMIT 1 BY name;
--: error FETCH clause is not supported
SELECT name FROM cell ORDER BY name FETCH FIRST 3 ROWS ONLY;
--: error FETCH clause is not supported
SELECT name FROM cell ORDER BY name OFFSET 4 ROWS FETCH NEXT 3 ROWS ONLY;
SELECT name FROM cell WHERE b ORDER BY x DESC, name LIMIT 4;
SELECT name FROM cell WHERE k > 1 ORDER BY k, name LIMIT 4 OFFSET 3;
SELECT name FROM cell ORDER BY k NULLS FIRST, name LIMIT 3;
SELECT name FROM cell ORDER BY k DESC NULLS LAST, name LIMIT 5;
SELECT DISTINCT x FROM cell ORDER BY x;
SELECT DISTINCT x FROM cell ORDER BY x DESC LIMIT 2;
SELECT DISTINCT x, b FROM cell ORDER BY b, x LIMIT 5 OFFSET 1;
SELECT DISTINCT donor FROM cell ORDER BY donor NULLS FIRST;
SELECT DISTINCT ON (x) x, name FROM cell ORDER BY x, name;
SELECT DISTINCT ON (donor) donor, name, x FROM cell ORDER BY donor NULLS LAST, x DESC, name;
SELECT DISTINCT ON (c.x) c.x, c.name FROM cell c ORDER BY c.x, c.name DESC;
SELECT DISTINCT ON (a.x) a.name, g.name AS gene FROM cell a JOIN gene g ON a.marker = g.name ORDER BY a.x, a.name, g.name;
SELECT count(*) FROM (SELECT name FROM cell LIMIT 5);
SELECT count(*) FROM (SELECT name FROM cell LIMIT 5 OFFSET 22);
SELECT count(*) FROM (SELECT name FROM cell WHERE x > 2 LIMIT 100 OFFSET 3);
SELECT count(*) FROM cell LIMIT 1;
SELECT count(*) FROM cell LIMIT 0;
SELECT count(*) FROM (SELECT x FROM cell ORDER BY x LIMIT 7);
SELECT sum(x) FROM (SELECT x FROM cell ORDER BY x DESC LIMIT 3);
SELECT name FROM (SELECT name, x FROM cell ORDER BY x, name LIMIT 6) WHERE x > 1 ORDER BY name;
--: duckdb the engine pushes the order below LIMIT and OFFSET
SELECT name FROM (SELECT name FROM cell ORDER BY name LIMIT 3 OFFSET 4) ORDER BY name;
SELECT name FROM (SELECT name FROM cell ORDER BY name LIMIT 3 OFFSET 4) ORDER BY name DESC;
SELECT name FROM (SELECT name FROM cell ORDER BY name LIMIT 3 OFFSET 4) AS t ORDER BY name DESC LIMIT 2;
SELECT * FROM (SELECT name, x FROM cell ORDER BY name LIMIT 5 OFFSET 3) AS t ORDER BY x, name;
--: duckdb the engine pushes the order below LIMIT and OFFSET
WITH t AS (SELECT name FROM cell ORDER BY name LIMIT 3 OFFSET 4) SELECT * FROM t ORDER BY name;
WITH t AS (SELECT name, x FROM cell ORDER BY name LIMIT 3 OFFSET 4), u AS (SELECT x FROM t) SELECT * FROM u ORDER BY x;
(SELECT name FROM cell ORDER BY name LIMIT 3 OFFSET 4) ORDER BY name DESC;
(SELECT name FROM cell ORDER BY name LIMIT 2 OFFSET 4) UNION ALL (SELECT name FROM cell ORDER BY name LIMIT 2 OFFSET 1) ORDER BY name;
SELECT name, row_number() OVER (ORDER BY name DESC) AS n FROM (SELECT name FROM cell ORDER BY name LIMIT 4 OFFSET 5) ORDER BY name;
SELECT name, sum(x) OVER (ORDER BY name) AS n FROM (SELECT name, x FROM cell ORDER BY name LIMIT 4 OFFSET 5) ORDER BY name;
SELECT array_agg(name ORDER BY x, name) FROM (SELECT name, x FROM cell ORDER BY name LIMIT 4 OFFSET 5);
--: datafusion DuckDB calls this aggregate first
SELECT first_value(name ORDER BY x DESC, name) FROM (SELECT name, x FROM cell ORDER BY name LIMIT 4 OFFSET 5);
SELECT (SELECT name FROM (SELECT name FROM cell ORDER BY name LIMIT 3 OFFSET 4) ORDER BY name LIMIT 1) AS n;
SELECT count(*) AS n FROM (SELECT * FROM (SELECT name, x FROM cell ORDER BY name LIMIT 3 OFFSET 4) ORDER BY x LIMIT 2) AS t;
SELECT name FROM cell WHERE name IN (SELECT name FROM cell ORDER BY name LIMIT 3 OFFSET 4) ORDER BY name;
SELECT a.name, b.name AS other FROM (SELECT name, x FROM cell ORDER BY name LIMIT 5 OFFSET 2) a JOIN (SELECT name, x FROM cell ORDER BY name DESC LIMIT 6 OFFSET 1) b ON a.x = b.x ORDER BY a.name, b.name;
SELECT name, x FROM cell WHERE x = 2 ORDER BY name DESC LIMIT 3;
SELECT max(n) FROM (SELECT count(*) AS n FROM cell GROUP BY x ORDER BY n DESC LIMIT 2);

-- A subquery with OFFSET and without LIMIT, sorted by another key: the engine by itself sorts before it passes over rows.
--: ordered
SELECT name FROM (SELECT upper(name) AS name FROM (SELECT name, x FROM cell ORDER BY x, name OFFSET 20)) ORDER BY name;
--: duckdb the engine pushes the order below OFFSET
SELECT n FROM (SELECT upper(name) AS n FROM (SELECT name, x FROM cell ORDER BY x, name OFFSET 20) t) u ORDER BY n DESC;
--: duckdb the engine pushes the order below OFFSET
SELECT a.name FROM (SELECT name, x FROM cell ORDER BY x, name OFFSET 20) a JOIN cell b ON a.name = b.name ORDER BY a.name;
--: duckdb the engine pushes the order below OFFSET
SELECT array_agg(name ORDER BY name) FROM (SELECT name, x FROM cell ORDER BY x, name OFFSET 20);
--: duckdb the engine pushes the order below OFFSET
SELECT string_agg(name, ',' ORDER BY name DESC) FROM (SELECT name, x FROM cell ORDER BY x, name OFFSET 20);
--: duckdb the engine pushes the order below OFFSET
WITH t AS (SELECT name, x FROM cell ORDER BY x, name OFFSET 20) SELECT name FROM t UNION ALL SELECT name FROM t ORDER BY name;
--: duckdb the engine pushes the order below OFFSET
SELECT name FROM (SELECT name, x FROM cell ORDER BY x, name OFFSET 20) AS t (name, x) ORDER BY name;
SELECT name FROM cell WHERE name IN (SELECT name FROM (SELECT name, x FROM cell ORDER BY x, name OFFSET 20) ORDER BY name) ORDER BY name;

-- The engine by itself takes memory for as many groups as LIMIT says.
SELECT count(*) FROM (SELECT DISTINCT x FROM cell ORDER BY x OFFSET 2) t;
SELECT count(*) FROM (SELECT donor, count(*) AS n FROM cell GROUP BY donor ORDER BY donor DESC OFFSET 1) t;
--: ordered
--: theirs SELECT DISTINCT x FROM cell ORDER BY x
SELECT DISTINCT x FROM cell ORDER BY x LIMIT 4000000000000000000;

-- What is limited is sorted again, or numbered, by what is around it.
--: duckdb the engine differs
SELECT * FROM (SELECT name, x FROM cell ORDER BY name LIMIT 3 OFFSET 4) ORDER BY name;
SELECT * FROM (SELECT name, x FROM cell ORDER BY name LIMIT 3 OFFSET 4) AS t ORDER BY x;
SELECT name FROM (SELECT name, x FROM cell ORDER BY name LIMIT 3 OFFSET 4) ORDER BY name DESC LIMIT 2;
--: duckdb the engine differs
WITH t AS (SELECT name, x FROM cell ORDER BY name LIMIT 3 OFFSET 4) SELECT * FROM t ORDER BY name;
WITH t AS (SELECT name, x FROM cell ORDER BY name LIMIT 3 OFFSET 4), u AS (SELECT x FROM t) SELECT * FROM u ORDER BY x;
--: duckdb the engine differs
(SELECT name, x FROM cell ORDER BY name LIMIT 3 OFFSET 4) ORDER BY name;
(SELECT name, x FROM cell ORDER BY name LIMIT 3 OFFSET 4) UNION ALL (SELECT name, x FROM cell ORDER BY name LIMIT 3 OFFSET 4) ORDER BY name;
SELECT name, row_number() OVER (ORDER BY name) AS n FROM (SELECT name, x FROM cell ORDER BY name LIMIT 3 OFFSET 4) ORDER BY name;
SELECT array_agg(name ORDER BY x) AS n FROM (SELECT name, x FROM cell ORDER BY name LIMIT 3 OFFSET 4);
SELECT (SELECT name FROM (SELECT name, x FROM cell ORDER BY name LIMIT 3 OFFSET 4) ORDER BY name LIMIT 1) AS n;
SELECT count(*) AS n FROM (SELECT * FROM (SELECT name, x FROM cell ORDER BY name LIMIT 3 OFFSET 4) ORDER BY x LIMIT 2) AS t;
SELECT * FROM (SELECT name, x FROM cell ORDER BY name LIMIT 3 OFFSET 4) AS "a
b" ORDER BY x;
SELECT 'a
b' AS y, * FROM (SELECT name, x FROM cell ORDER BY name LIMIT 3 OFFSET 4) ORDER BY name;
SELECT array_agg("a
b" ORDER BY "a
b") AS n FROM (SELECT x AS "a
b" FROM (SELECT name, x FROM cell ORDER BY name LIMIT 3 OFFSET 4));
