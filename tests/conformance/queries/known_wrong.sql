-- What the other files have no place for, and is wrong today.

SELECT name FROM cell WHERE x IN (x, y) AND y > 1;
SELECT name FROM cell WHERE y > 1 AND b IN (b, true);
--: error more than one column named 'name'.*name them with AS
SELECT DISTINCT ON (a.x) a.name, g.name FROM cell a JOIN gene g ON a.marker = g.name ORDER BY a.x, a.name, g.name;
SELECT DISTINCT ON (a.x) a.name, g.name AS gene FROM cell a JOIN gene g ON a.marker = g.name ORDER BY a.x, a.name, g.name;

-- The mean of integers that a float cannot add up.
--: duckdb the engine adds floats, in the order of its partitions
--: wrong all: the engine adds floats, as limits.md says
SELECT avg(wide) FROM cell;
SELECT avg(wide) AS m, sum(wide) AS s, count(*) AS n FROM cell WHERE b;
SELECT avg(wide + 0) FROM cell WHERE name > 'c01' AND name < 'c09' AND wide < 2;

-- NaN that a query computes is larger than any number.
--: duckdb the engine's aggregates pass over NaN, or not, by their order
--: wrong all: limits.md names aggregates of NaN that a query computes
SELECT b, max(edge * 0), min(edge * 0) FROM cell GROUP BY b;
--: duckdb the engine's aggregates pass over NaN, or not, by their order
--: wrong all: limits.md names aggregates of NaN that a query computes
SELECT max(edge * 0), min(edge * 0) FROM cell;

-- IN (SELECT ...) beside OR, or within another operator, is false where SQL says NULL.
--: duckdb the engine has false for the NULL of IN (SELECT ...)
--: wrong all: rows whose left side is NULL are kept
SELECT name FROM cell WHERE k NOT IN (SELECT x FROM gene WHERE is_marker) OR x = 8;
--: duckdb the engine has false for the NULL of IN (SELECT ...)
--: wrong all: all rows are kept, though the subquery has a NULL
SELECT name FROM cell WHERE NOT (x IN (SELECT k FROM gene) AND x >= NULL);
--: duckdb the engine has false for the NULL of IN (SELECT ...)
--: wrong all: rows whose left side is NULL are counted
SELECT count(*) FROM cell WHERE (k IN (SELECT x FROM gene)) = b;
--: duckdb the engine has false for the NULL of IN (SELECT ...)
--: wrong all: NULL is taken for false
SELECT count(*) FROM cell WHERE (k IN (SELECT x FROM gene)) IS NULL;
SELECT c.name, g.name AS gene FROM cell c LEFT JOIN gene g ON c.marker = g.name AND g.is_marker WHERE g.x IS NOT NULL;

-- A column that a right or full join merges, and a sample.
--: duckdb the engine has the value of the left table alone
--: wrong axes, own: limits.md names what USING merges
SELECT count(x) FROM cell c FULL JOIN gene g USING (x);
--: duckdb the engine has the value of the left table alone
--: wrong axes, own: limits.md names what USING merges
SELECT x, g.name FROM cell c RIGHT JOIN gene g USING (x) WHERE c.name IS NULL;
--: rows [[0]]
--: wrong axes, own: the engine passes over TABLESAMPLE, as limits.md says
SELECT count(*) FROM cell TABLESAMPLE (0 ROWS);
