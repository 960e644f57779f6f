-- What is refused, with an error of ours.

--: error axis 'cell' has no vector 'nope'|no column 'nope'
SELECT nope FROM cell;
--: error .
SELECT * FROM nothing;
--: error .
SELECT name FROM cell WHERE;
--: error .
SELECT FROM WHERE;
--: error .
SELECT name FROMM cell;
--: error .
SELECT name FROM cell WHERE x > > 3;
--: error Invalid function|no function|nope
SELECT nope(x) FROM cell;
--: error .
SELECT avg(name) FROM cell;
--: error .
SELECT donor, x FROM cell GROUP BY donor;
--: error .
SELECT name FROM cell WHERE count(*) > 1;
--: error .
SELECT name FROM cell, gene;
--: error .
SELECT sum(sum(x)) FROM cell;
--: error .
SELECT x FROM cell UNION SELECT x, y FROM cell;
--: error .
SELECT name FROM cell LIMIT -1;
--: error .
SELECT name FROM cell LIMIT x;
--: error .
SELECT name FROM cell LIMIT 'a';
--: datafusion it does not count how often a row is on each side
SELECT x FROM cell INTERSECT ALL SELECT x FROM gene;
--: datafusion it does not count how often a row is on each side
SELECT x FROM cell EXCEPT ALL SELECT x FROM gene;
--: datafusion it searches a regular expression anywhere
SELECT name FROM cell WHERE s SIMILAR TO 'abc';
--: error AND is refused
SELECT name FROM cell WHERE k IS DISTINCT FROM 5 AND b;
--: error IN, EXISTS, ANY and ALL of a subquery
SELECT x IN (SELECT x FROM gene) AS found FROM cell;
--: error IN, EXISTS, ANY and ALL of a subquery
SELECT EXISTS (SELECT 1 FROM gene WHERE gene.x = cell.x) AS found FROM cell;
--: error IN, EXISTS, ANY and ALL of a subquery
SELECT count(*) FILTER (WHERE x > ANY (SELECT x FROM gene)) FROM cell;
--: error .
SELECT c.x FROM cell c JOIN gene g ON c.x > ALL (SELECT h.x FROM gene h WHERE h.x < 3);
--: error changes something|was refused
INSERT INTO cell SELECT * FROM cell;
--: error .
DELETE FROM cell;
--: error .
SELECT 1; SELECT 2;
--: error .
SELECT name FROM cell WHERE x = (SELECT x FROM gene);
--: error .
SELECT CAST(s AS INT) FROM cell;
--: error .
SELECT DATE 'nothing' FROM cell;
--: error .
WITH t AS (SELECT x FROM cell) SELECT y FROM t;
--: error .
SELECT a.x FROM cell c;
--: error .
SELECT name FROM cell ORDER BY nope;
--: error .
SELECT x + name FROM cell WHERE x + name > 1;
