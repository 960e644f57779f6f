-- Views and tables that a query creates.

CREATE VIEW few AS SELECT name, x, k FROM cell WHERE x > 2;
CREATE VIEW summed AS SELECT x, count(*) AS n, sum(k) AS s FROM cell GROUP BY x;
CREATE VIEW renamed AS SELECT name AS "a b", u AS p, v AS q FROM cell;
CREATE VIEW joined AS SELECT c.name AS cell, g.name AS gene, g.chrom FROM cell c JOIN gene g ON c.marker = g.name;
CREATE VIEW nested AS SELECT name, x FROM few WHERE k IS NOT NULL;
CREATE VIEW listed AS SELECT name, k FROM cell WHERE k IN (1, 2, 3, 4);
CREATE TABLE made AS SELECT name, x, k, donor FROM cell WHERE b;
SELECT * FROM few;
SELECT name FROM few WHERE k IS NULL;
SELECT count(*) FROM few;
SELECT few.name, gene.name AS gene FROM few JOIN gene ON few.x = gene.x;
SELECT * FROM summed WHERE n > 3;
SELECT max(n), sum(s) FROM summed;
SELECT "a b" FROM renamed WHERE "a b" > 'c20';
SELECT chrom, count(*) FROM joined GROUP BY chrom;
SELECT cell FROM joined WHERE gene = 'g1' AND chrom IS NOT NULL;
SELECT name FROM nested WHERE x < 8;
SELECT n.name FROM nested n JOIN few f ON n.name = f.name;
SELECT name FROM listed WHERE k NOT IN (2, 7, 8, 9, 10);
SELECT * FROM made;
SELECT donor, count(*), sum(k) FROM made GROUP BY donor;
SELECT name FROM made WHERE donor IS NULL;
SELECT m.name, c.y FROM made m JOIN cell c ON m.name = c.name;
SELECT name FROM cell WHERE name NOT IN (SELECT name FROM made);
SELECT name FROM few UNION SELECT name FROM made;
--: ordered
SELECT name FROM few ORDER BY k NULLS FIRST, name LIMIT 5;
--: ordered
SELECT x, n FROM summed ORDER BY n DESC, x;
--: not own
--: theirs SELECT p::BIGINT - q::BIGINT FROM renamed
SELECT p - q FROM renamed;

-- A view that has rows passed over and is then sorted.
CREATE VIEW some_rows AS SELECT name, x FROM cell ORDER BY name LIMIT 5 OFFSET 4;
SELECT name FROM some_rows;
SELECT count(*) FROM some_rows WHERE x > 2;
--: ordered
SELECT name FROM some_rows ORDER BY name DESC;

-- A view whose text has its own name in it.
CREATE VIEW doubled AS SELECT name, 2 * x AS doubled FROM cell;
SELECT name, doubled FROM doubled WHERE doubled > 8;
CREATE VIEW few_large AS (SELECT name, x AS few FROM few WHERE x > 3);
SELECT f.name, f.few, d.doubled FROM few_large f JOIN doubled d ON f.name = d.name;

-- Limited rows in brackets, before a comment, in a table.
CREATE VIEW in_brackets AS (SELECT name, x FROM cell ORDER BY name LIMIT 3 OFFSET 4);
CREATE VIEW commented AS SELECT name, x FROM cell ORDER BY name LIMIT 3 OFFSET 4 -- the end
;
CREATE TABLE sorted AS SELECT * FROM (SELECT name, x FROM cell ORDER BY name LIMIT 3 OFFSET 4) ORDER BY name;
--: ordered
--: not collection
--: rows [["c04"], ["c05"], ["c06"]]
SELECT name FROM in_brackets ORDER BY name;
--: ordered
--: not collection
--: rows [["c04"], ["c05"], ["c06"]]
SELECT name FROM commented ORDER BY name;
--: not collection
--: rows [[3]]
SELECT count(*) FROM sorted;

-- Places in an order, of which one is subtracted from another.
CREATE VIEW ranked AS SELECT name, row_number() OVER (ORDER BY name) AS r, rank() OVER (ORDER BY x, name) AS s FROM cell;
CREATE VIEW ranks AS SELECT * FROM ranked WHERE r > 2;
--: theirs SELECT r::BIGINT - s::BIGINT AS d, -s::BIGINT AS m FROM ranked
SELECT r - s AS d, -s AS m FROM ranked;
--: theirs SELECT name FROM ranks WHERE r::BIGINT - s::BIGINT < 0
SELECT name FROM ranks WHERE r - s < 0;
--: theirs SELECT min(r)::BIGINT - max(s)::BIGINT AS d FROM ranks
SELECT min(r) - max(s) AS d FROM ranks;
