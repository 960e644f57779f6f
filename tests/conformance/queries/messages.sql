-- Errors that say what to write instead.

--: error "percent\.mito"
SELECT percent.mito FROM cell;
--: error name.*cell.*gene
SELECT name FROM cell JOIN gene ON cell.marker = gene.name;
--: error \bavg\b
SELECT average(x) FROM cell;
--: error \blength\b
SELECT strlen(s) FROM cell;
--: error array_agg
SELECT list(x) FROM cell;
--: error first_value
SELECT arg_max(name, x) FROM cell;
--: error line 1.*louvain
SELECT name FROM cell WHERE louvain = 5;
--: error line 1.*maybe
SELECT name FROM cell WHERE maybe = 'nope';
--: error line 1.*x
SELECT x / 0 FROM cell;
--: error LIMIT
SELECT TOP 5 name FROM cell;
--: error quote.*'T'|'T'.*quote
SELECT name FROM cell WHERE louvain IN (T, B);
--: error HAVING|subquery
SELECT x + 1 AS more FROM cell WHERE more > 2;
--: error daf describe
SUMMARIZE cell;
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
