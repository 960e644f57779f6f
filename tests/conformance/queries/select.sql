-- SELECT: columns, aliases, constants, expressions, DISTINCT, tables without names.

SELECT name, x FROM cell;
SELECT x FROM cell;
SELECT "index", name FROM cell WHERE x > 5;
SELECT name AS n, x AS z FROM cell;
SELECT name n, x z FROM cell;
SELECT "two words", "percent.mito", "order" FROM cell;
SELECT c.x, c."two words" FROM cell AS c;
SELECT cell.x FROM cell;
SELECT 1;
SELECT 1 AS one, 'a' AS letter, NULL AS nothing, true AS yes;
SELECT 'it''s' AS quoted, '' AS empty, '"' AS double;
SELECT 1, name FROM cell;
--: error unique expression names
SELECT x, x FROM cell;
SELECT x + 1 AS x FROM cell;
SELECT x, y AS x_1, x + y FROM cell;
SELECT DISTINCT x FROM cell;
SELECT DISTINCT x, b FROM cell;
SELECT DISTINCT k FROM cell;
SELECT DISTINCT donor, maybe FROM cell;
SELECT DISTINCT f FROM cell;
SELECT DISTINCT x + 1 AS z FROM cell WHERE b;
SELECT DISTINCT upper(donor) FROM cell;
SELECT DISTINCT count(*) FROM cell GROUP BY x;
SELECT ALL x FROM cell;
SELECT count(*) FROM cell;
SELECT count(*), count(k), count(DISTINCT k) FROM cell;
SELECT count(*) AS n, count(1) AS m FROM cell WHERE x > 100;
SELECT -x, +y, - -x FROM cell;
SELECT x = 1, x <> 1, k = 3, k IS NULL FROM cell;
SELECT (x), ((y)) FROM cell;
SELECT CASE x WHEN 1 THEN 'one' WHEN 2 THEN 'two' ELSE 'many' END AS w FROM cell;
SELECT CASE WHEN k IS NULL THEN -1 ELSE k END AS k FROM cell;
SELECT CASE WHEN x > 2 THEN 'high' END AS h FROM cell;
SELECT CASE k WHEN NULL THEN 1 ELSE 0 END FROM cell;
SELECT * FROM (SELECT x, y FROM cell) AS t;
SELECT t.* FROM (SELECT x AS p, y AS q FROM cell) AS t;
SELECT p + q FROM (SELECT x AS p, y AS q FROM cell) t;
SELECT * FROM (VALUES (1, 'a'), (2, 'b'), (NULL, 'c')) AS t(n, s);
VALUES (1, 'a'), (2, NULL);
SELECT /* a comment; with -- another */ x -- ; the end
FROM cell;
SELECT x FROM cell AS "a b" WHERE "a b".x = 1;
--: error no (vector|column) 'NAME'.*did you mean 'name'
select NAME from cell;
SELECT 'x' || name || '-' || donor FROM cell;
SELECT name, (SELECT count(*) FROM gene) AS genes FROM cell;
SELECT x AS "SELECT", y AS "from" FROM cell;
SELECT '?', '$1', ':x' FROM cell WHERE x = 1;
SELECT x AS name, name AS x FROM cell;
SELECT donor AS name, x AS y FROM cell WHERE x > 2 LIMIT 100;
--: error 'cell'
SELECT cell.x FROM cell AS c;
--: error 'other'|other
SELECT other.x FROM cell;

-- A name that is given is not the column of that name.
SELECT x AS y, y AS x FROM cell;
SELECT y AS x FROM cell WHERE x > 2;
SELECT c.y AS x, c.name FROM cell c WHERE c.x > 2 AND x < 8;
--: ordered
--: not collection
SELECT name AS donor, donor AS name FROM cell ORDER BY index LIMIT 3;
SELECT y AS x, count(*) AS y FROM cell WHERE x > 1 GROUP BY cell.y;
SELECT DISTINCT donor AS x FROM cell;
--: error .
SELECT a.x FROM cell c;
--: error .
SELECT c.x FROM cell;
