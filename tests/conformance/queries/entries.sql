-- Entries of matrices as columns, X['g1'], and matrices in long form.
--: file not own

SELECT name, X['g1'] AS g FROM cell;
SELECT X['g1'], X['g2'], counts['g1'] FROM cell;
SELECT name FROM cell WHERE X['g1'] > 1;
SELECT name FROM cell WHERE X['g1'] > 0 AND X['g2'] > 0;
SELECT name FROM cell WHERE X['g1'] > 0 OR counts['g3'] > 150;
SELECT name FROM cell WHERE X['g1'] = 0;
SELECT name FROM cell WHERE X['g1'] IN (1, 2);
SELECT name FROM cell WHERE X['g1'] BETWEEN 1 AND 2 AND x > 2;
SELECT name FROM cell WHERE NOT (X['g1'] > 0);
SELECT name FROM cell WHERE X['g1'] IS NULL;
SELECT name FROM cell WHERE X['g1'] IS NOT NULL AND x = 1;
SELECT X['it''s'], X['β.1'] FROM cell WHERE X['it''s'] > 0;
--: theirs SELECT name FROM cell WHERE X['g1'] > 1
SELECT name FROM cell WHERE X [ 'g1' ] > 1;
SELECT c.name, c.X['g1'] AS g FROM cell c WHERE c.X['g2'] > 0;
SELECT cell.X['g1'] FROM cell;
SELECT counts['g1'] - counts['g2'] AS d FROM cell;
SELECT counts['g1'] + counts['g2'] * 2, -counts['g3'] FROM cell;
--: datafusion integers are divided as integers
SELECT counts['g1'] / 2, counts['g1'] % 2 FROM cell;
SELECT X['g1'] / 2, X['g1'] * x, X['g1'] + f FROM cell;
SELECT sqrt(4 * X['g1'] * X['g1']), sqrt(counts['g2']) FROM cell;
SELECT sum(X['g1']), avg(X['g2']), max(counts['g1']), min(counts['g1']) FROM cell;
SELECT count(*) FROM cell WHERE X['g1'] > 0;
SELECT count(*) FILTER (WHERE X['g1'] > 0) AS n FROM cell;
SELECT donor, avg(X['g1']), sum(counts['g2']) FROM cell GROUP BY donor;
SELECT X['g1'] AS v, count(*) FROM cell GROUP BY X['g1'];
SELECT X['g1'] > 0 AS high, count(*), avg(x) FROM cell GROUP BY X['g1'] > 0;
SELECT donor FROM cell GROUP BY donor HAVING max(X['g1']) > 2;
SELECT CASE WHEN X['g1'] > 1 THEN 'high' ELSE 'low' END AS c FROM cell;
--: ordered
SELECT name, X['g1'] AS g FROM cell ORDER BY X['g1'] DESC, name;
--: ordered
SELECT name, X['g1'] AS g FROM cell ORDER BY g DESC, name LIMIT 5;
--: ordered
SELECT name FROM cell ORDER BY counts['g1'] + counts['g2'], name LIMIT 5;
SELECT name, rank() OVER (PARTITION BY donor ORDER BY X['g1'] DESC) AS r FROM cell;
SELECT name, sum(X['g1']) OVER (ORDER BY name) AS s FROM cell;
SELECT DISTINCT X['g1'] AS v FROM cell;
SELECT name FROM cell WHERE X['g1'] = (SELECT max(X['g1']) FROM cell);
SELECT name FROM cell WHERE X['g1'] > (SELECT avg(X['g2']) FROM cell);
SELECT name FROM cell WHERE EXISTS (SELECT 1 FROM gene WHERE gene.name = cell.marker AND cell.X['g1'] > 0);
SELECT name FROM cell WHERE name IN (SELECT name FROM cell WHERE X['g1'] > 1);
SELECT v FROM (SELECT name, X['g1'] AS v FROM cell) WHERE v > 1;
WITH t AS (SELECT name, X['g1'] AS v, X['g2'] AS w FROM cell) SELECT name FROM t WHERE v > w;
SELECT c.name, g.chrom, c.X['g1'] AS v FROM cell c JOIN gene g ON c.marker = g.name WHERE c.X['g1'] > 0;
SELECT a.name, b.name AS other FROM cell a JOIN cell b ON a.X['g1'] = b.X['g2'] + 1;
SELECT a.name FROM cell a JOIN cell b ON a.name = b.name WHERE a.X['g1'] > b.X['g2'];
SELECT name FROM cell WHERE X['g1'] > 1 UNION SELECT name FROM cell WHERE counts['g1'] > 150;
SELECT name FROM cell WHERE X['g1'] > 2 UNION ALL SELECT name FROM gene WHERE x > 5;
SELECT a.X['g1'] AS v, b.counts['g2'] AS w FROM cell a, cell b WHERE a.name = b.name;
--: with {"gene": "g1", "least": 1}
--: theirs SELECT name FROM cell WHERE X['g1'] > 1
SELECT name FROM cell WHERE X[$gene] > $least;
--: with ["g2", 0]
--: theirs SELECT name FROM cell WHERE X['g2'] > 0
SELECT name FROM cell WHERE X[?] > ?;
SELECT [1, 2][1] AS a, X['g1'] AS b FROM cell;
--: error 'nope'
SELECT X['nope'] FROM cell;
--: error nothing|no (matrix|vector|column)
SELECT Y['g1'] FROM cell;

-- Wildcards leave the entries out.
--: theirs SELECT name, x FROM cell WHERE X['g1'] > 1
SELECT * FROM (SELECT name, x FROM cell WHERE X['g1'] > 1);
--: theirs SELECT name, chrom, "index", is_marker, k, x FROM gene WHERE name IN (SELECT marker FROM cell WHERE X['g1'] > 2)
SELECT name, chrom, "index", is_marker, k, x FROM gene WHERE name IN (SELECT marker FROM cell WHERE X['g1'] > 2);
--: theirs SELECT name, x, X['g1'] AS g FROM cell WHERE X['g1'] > 1
SELECT * FROM (SELECT name, x, X['g1'] AS g FROM cell) WHERE g > 1;

-- The other axis.
--: not collection
--: rows [["g1", 2], ["g2", 5], ["g3", 9], ["it's", 2], ["β.1", 1], ["g6", 7]]
SELECT name, x FROM gene WHERE X['c00'] >= 0;

-- In long form.
SELECT cell, gene, value FROM matrix('cell', 'gene', 'X');
SELECT cell, gene, value FROM matrix('cell', 'gene', 'counts');
SELECT count(*), sum(value) FROM matrix('cell', 'gene', 'X');
SELECT cell, value FROM matrix('cell', 'gene', 'X') WHERE gene = 'g1';
SELECT cell, value FROM matrix('cell', 'gene', 'X') WHERE gene IN ('g1', 'it''s') AND value > 1;
SELECT gene, value FROM matrix('cell', 'gene', 'counts') WHERE cell = 'c07' OR cell LIKE 'c2%' AND value > 100;
SELECT gene, count(*), avg(value), max(value) FROM matrix('cell', 'gene', 'X') GROUP BY gene;
SELECT cell, sum(value) FROM matrix('cell', 'gene', 'counts') GROUP BY cell HAVING sum(value) > 500;
SELECT m.cell, m.gene, g.chrom FROM matrix('cell', 'gene', 'X') m JOIN gene g ON m.gene = g.name WHERE m.value > 2;
SELECT c.donor, sum(m.value) FROM matrix('cell', 'gene', 'X') m JOIN cell c ON m.cell = c.name GROUP BY c.donor;
SELECT a.cell, a.value - b.value AS d FROM matrix('cell', 'gene', 'counts') a JOIN matrix('cell', 'gene', 'counts') b ON a.cell = b.cell WHERE a.gene = 'g1' AND b.gene = 'g2';
SELECT name FROM cell WHERE name IN (SELECT cell FROM matrix('cell', 'gene', 'X') WHERE gene = 'g1' AND value > 1);
SELECT value - 2 * value AS d, count(*) FROM matrix('cell', 'gene', 'counts') GROUP BY d;
SELECT gene FROM matrix('cell', 'gene', 'X') WHERE gene = NULL OR cell = 'c03';
SELECT gene, rank() OVER (PARTITION BY cell ORDER BY value DESC, gene) AS r FROM matrix('cell', 'gene', 'counts') WHERE cell < 'c03';
--: ordered
SELECT cell, gene, value FROM matrix('cell', 'gene', 'X') ORDER BY value DESC, cell, gene LIMIT 5;
