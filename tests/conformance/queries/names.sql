-- Names: quoted, of tables and schemas, with case, and what looks like SQL.
--: file only directory, archive, hdf5, h5ad, dictionary

--: theirs SELECT name FROM cell WHERE x = 1
SELECT name FROM data.cell WHERE x = 1;
--: theirs SELECT name FROM cell WHERE x = 1
SELECT cell.name FROM data.cell WHERE cell.x = 1;
--: theirs SELECT name FROM cell WHERE x = 1
SELECT data.cell.name FROM data.cell WHERE data.cell.x = 1;
--: theirs SELECT name FROM cell WHERE x = 1
SELECT name FROM daf.data.cell WHERE x = 1;
--: theirs SELECT c.name, g.x FROM cell c JOIN gene g ON c.marker = g.name
SELECT data.cell.name, data.gene.x FROM data.cell JOIN data.gene ON data.cell.marker = data.gene.name;
--: theirs SELECT name FROM cell WHERE x = 1
SELECT "name" FROM "data"."cell" AS "c c" WHERE "c c"."x" = 1;
--: theirs SELECT count(*) FROM cell
select COUNT(*) from data.cell;
--: error 'Cell'|Cell
SELECT name FROM Cell;
--: error 'X'|"X"|X
SELECT X FROM gene;
--: theirs SELECT name FROM cell WHERE x = 1
SELECT `name` FROM `cell` WHERE `x` = 1;
SELECT "two words" + "order" AS "a sum", "percent.mito" * 2 AS "p.m" FROM cell;
SELECT c."percent.mito", "c"."order" FROM cell c WHERE c."two words" IN (1, 4);
SELECT "order", count(*) FROM cell GROUP BY "order" HAVING "order" > 20;
SELECT "percent.mito" AS p, avg("order") FROM cell GROUP BY "percent.mito";
SELECT x AS "X", y AS "y z" FROM cell WHERE x = 1;
SELECT "X" FROM (SELECT x AS "X" FROM cell) WHERE "X" > 5;
SELECT t."a b" FROM (SELECT x AS "a b" FROM cell) t WHERE t."a b" = 1;
SELECT x AS cell, y AS gene FROM cell WHERE x = 1;
SELECT cell.x AS name FROM cell WHERE cell.name = 'c00';
SELECT name AS x, x AS name FROM cell WHERE x = 1;
SELECT cell FROM (SELECT x AS cell FROM cell) AS gene WHERE cell > 5;
SELECT gene.x FROM cell AS gene WHERE gene.b;
SELECT 'SELECT x FROM cell -- $x ?' AS t, x FROM cell WHERE x = 1;
SELECT x /* ORDER BY (SELECT 1 LIMIT 1) */ FROM cell WHERE x = 1 -- AND x = 2
AND b;
SELECT $$it's$$ AS t FROM cell WHERE x = 1;
SELECT x FROM cell WHERE s = 'IN (1) AND x IN (2)' OR x = 8;
SELECT name FROM cell WHERE name = 'c01' ; ;
(SELECT name FROM cell WHERE x = 1);
((SELECT name FROM cell WHERE x = 1));
SELECT (((x))) FROM cell WHERE ((((x = 1))));
SELECT x IS NOT NULL AND NOT x IS NULL AS both FROM cell;
SELECT NOT NOT b, - (- x), NOT (x = 1) FROM cell;
SELECT x+y,x-y,x*-1,-x-y FROM cell;
SELECT x--1
FROM cell WHERE x = 1;
