-- Errors that say what to write instead.

--: error quote its name, as in "percent\.mito"
SELECT percent.mito FROM cell;
--: error cell and gene; write cell\.name
SELECT name FROM cell JOIN gene ON cell.marker = gene.name;
--: error write avg
SELECT average(x) FROM cell;
--: error write length
SELECT strlen(s) FROM cell;
--: error write array_agg
SELECT list(x) FROM cell;
--: error write first_value
SELECT arg_max(name, x) FROM cell;
--: error line 1, column 29: louvain holds strings, and 5 is no string
SELECT name FROM cell WHERE louvain = 5;
--: error line 1.*maybe
SELECT name FROM cell WHERE maybe = 'nope';
--: error line 1, column 15.*nullif\(y, 0\)
SELECT x / 2, x / 0 FROM cell;
--: error line 1, column 8.*nullif\(y, 0\)
SELECT 1 / (x - x) FROM cell;
--: error line 1, column 15.*nullif\(y, 0\)
SELECT x / 2, 1 % (x - x) FROM cell;
--: error line 1, column 39.*write '5'
SELECT name FROM cell WHERE x < 5 AND	donor IN ('a', 5);
--: error line 1, column 15: 'old' is no number, and x holds
SELECT x > 1, x = 'old' FROM cell;
--: error line 1, column 29.*is_marker, or NOT is_marker
SELECT name FROM gene WHERE is_marker = 'yes';
--: error times are written '2024-01-31' or
SELECT name FROM cell WHERE CAST('2024-01-31 18:30' AS TIMESTAMP) > now();
--: error write LIMIT at the end
SELECT TOP 5 name FROM cell;
--: error single quotes: 'T'
SELECT name FROM cell WHERE louvain IN (T, B);
--: error by HAVING.*subquery
SELECT x + 1 AS more FROM cell WHERE more > 2;
--: error 'daf describe PATH AXIS'
SUMMARIZE cell;
--: error two columns called 's'; name them with AS, or write \* EXCEPT \(s\)
SELECT *, upper(s) AS s FROM cell;
--: error write name ~ 'pattern'
SELECT name FROM cell WHERE s REGEXP '^a';
--: error ^QueryError: Pivot is nothing that the engine knows$
SELECT * FROM cell PIVOT (sum(x) FOR donor IN ('N1'));
--: error ^QueryError: regex parse error
SELECT name FROM cell WHERE s ~ '(';
--: error line 1.*b is true or false
SELECT name FROM cell WHERE b BETWEEN 1 AND 2;
--: error ^QueryError: Failed to coerce types .* in BETWEEN expression$
SELECT name FROM cell WHERE x BETWEEN 1 AND x BETWEEN 1 AND 2;
--: error a field is in brackets
SELECT struct(x, y).c0 FROM cell;
--: error a condition is true or false, as in n_genes > 0
SELECT name FROM cell WHERE x;
--: error Unterminated string literal
SELECT name FROM cell WHERE donor = 'N1;
--: error line 1, column 14: Expected close delimiter
SELECT name, "age FROM cell;
--: error (?s)^(?!.*wildcard).*add it to GROUP BY
SELECT donor, avg(x) FROM cell;
--: error no function 'st_point'.*register_all\(db.context\); install it with: pip install .*\[spatial\]
SELECT ST_Point(x, x) FROM cell;
--: error brackets are too deep within each other.*WITH name AS
SELECT ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1))))))))))))))))))))))))))))))))))))))))))))))))))))))))))));

-- Of subqueries that are no condition.
--: error ^QueryError: IN, EXISTS, ANY and ALL of a subquery are answered in WHERE
SELECT x > ANY (SELECT x FROM gene) FROM cell;
--: error ^QueryError: IN, EXISTS, ANY and ALL of a subquery are answered in WHERE
SELECT x <> ALL (SELECT x FROM gene) AS b FROM cell;
--: error ^QueryError: IN, EXISTS, ANY and ALL of a subquery are answered in WHERE
SELECT DISTINCT NOT x = SOME (SELECT x FROM gene) FROM cell;
--: error ^QueryError: IN, EXISTS, ANY and ALL of a subquery are answered in WHERE
SELECT CASE WHEN x NOT IN (SELECT x FROM gene) THEN 1 END FROM cell;
--: error ^QueryError: IN, EXISTS, ANY and ALL of a subquery are answered in WHERE
SELECT x = 1 OR EXISTS (SELECT 1 FROM gene g WHERE g.x = cell.x) FROM cell;
--: error ^QueryError: IN, EXISTS, ANY and ALL of a subquery are answered in WHERE
SELECT x FROM cell ORDER BY x > ANY (SELECT x FROM gene);
--: error ^QueryError: IN, EXISTS, ANY and ALL of a subquery are answered in WHERE
SELECT x FROM cell ORDER BY EXISTS (SELECT 1 FROM gene g WHERE g.x = cell.x);
--: error ^QueryError: IN, EXISTS, ANY and ALL of a subquery are answered in WHERE
SELECT count(*) AS n FROM cell GROUP BY x IN (SELECT x FROM gene);
--: error ^QueryError: IN, EXISTS, ANY and ALL of a subquery are answered in WHERE
SELECT sum(CASE WHEN x <> ALL (SELECT x FROM gene) THEN 1 ELSE 0 END) AS n FROM cell;
--: error ^QueryError: IN, EXISTS, ANY and ALL of a subquery are answered in WHERE
SELECT count(*) FILTER (WHERE x = SOME (SELECT x FROM gene)) FROM cell;
--: error ^QueryError: IN, EXISTS, ANY and ALL of a subquery are answered in WHERE
SELECT row_number() OVER (PARTITION BY x NOT IN (SELECT x FROM gene)) FROM cell;
--: error ^QueryError: IN, EXISTS, ANY and ALL of a subquery are answered in WHERE
SELECT row_number() OVER (PARTITION BY x > ANY (SELECT x FROM gene)) FROM cell;
--: error ^QueryError: IN, EXISTS, ANY and ALL of a subquery are answered in WHERE
SELECT b FROM (SELECT x, x IN (SELECT x FROM gene) AS b FROM cell) WHERE x > 1;
--: error ^QueryError: IN, EXISTS, ANY and ALL of a subquery are answered in WHERE
SELECT b FROM (SELECT x, x <> ALL (SELECT x FROM gene) AS b FROM cell) WHERE x > 1;
--: error ^QueryError: a subquery of one value that names .* a join
SELECT (SELECT max(x) FROM gene WHERE gene.x < cell.x) AS most FROM cell;
--: error ^QueryError: a subquery of one value that names .* a join
SELECT (SELECT name FROM gene WHERE gene.x = cell.x ORDER BY x LIMIT 1) AS g FROM cell;
--: error ^QueryError: a subquery of one value that names .* a join
SELECT x FROM cell WHERE (SELECT max(x) FROM gene WHERE gene.x = cell.x OR x = 5) > 1;
--: error ^QueryError: a subquery of one value that names .* a join
SELECT x FROM cell ORDER BY (SELECT max(x) FROM gene WHERE gene.x = cell.x);
--: error ^QueryError: a subquery of one value that names .* a join
SELECT (SELECT max(x) FROM gene WHERE gene.x = cell.x) AS m FROM cell GROUP BY m;
--: error ^QueryError: a subquery after IN, or whose value is compared, has one column
SELECT x FROM cell WHERE x NOT IN (SELECT x, k FROM gene);
--: error write NOT EXISTS
SELECT x FROM cell WHERE x NOT IN (SELECT x FROM gene WHERE gene.name = cell.name);
--: error write NOT EXISTS
SELECT x FROM cell WHERE x NOT IN (SELECT x FROM gene WHERE gene.k < cell.k);
--: error write NOT EXISTS
SELECT x FROM cell WHERE k NOT IN (SELECT x FROM gene WHERE gene.x = cell.x);
--: error write NOT EXISTS
SELECT x FROM cell c WHERE 5 NOT IN (SELECT g.k FROM gene g WHERE g.x = c.x);

-- Of entries of matrices.
--: not own
--: error is for a matrix over the axis of the table
SELECT 'X'['g1'] FROM cell;
--: not own
--: error as in "gene.X"\['name'\]
SELECT x['g1'] FROM cell;
--: not own, h5ad, collection
--: error axis 'gene' has no entry 'g11'; did you mean 'g1'
SELECT X['g11'] FROM cell;
--: not own
--: error so write X\['g1'\]
SELECT X["g1"] FROM cell;
--: not own
--: error so write "gene.X"\['g1'\]
SELECT "gene.X"["g1"] FROM cell;
--: not own
--: error the entry is a string, as in X\['name'\]
SELECT X[0] FROM cell;
--: not own
--: error the entry is a string
SELECT X[lower('a')] FROM cell;
--: not own
--: error it is a matrix over 'gene', so name an entry of that axis, as in X\['g1'\]
SELECT X FROM cell;
--: not own
--: error did you mean 'X'
SELECT Xx['g1'] FROM cell;
--: not own
--: error write "gene.X"\['g1'\]
SELECT gene.X['g1'] FROM cell;
--: not own
--: error a table 'cell', which the query does not have; it has c: write X
SELECT cell.X['g1'] FROM cell AS c;
--: not own
--: error has to name X\['g1'\] in its own SELECT
WITH c AS (SELECT * FROM cell) SELECT X['g1'] FROM c;
--: not own
--: error of several tables; write a
SELECT * FROM cell a JOIN cell b USING (name) WHERE a.X['g1'] > b.X['g1'];
--: not own
--: error write JOIN \.\.\. USING
SELECT a.name FROM cell a NATURAL JOIN cell b WHERE a.X['g1'] > 0;
--: not own, h5ad, collection
--: error name columns by AS
SELECT * FROM gene g (a, b, c, d, e, f) WHERE X['c00'] > 0;
