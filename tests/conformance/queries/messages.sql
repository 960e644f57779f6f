-- Errors that should say what to write instead, and do not yet.

--: wrong all: does not say to quote the name
--: error "percent\.mito"
SELECT percent.mito FROM cell;
--: wrong all: does not name the field and the tables that have it
--: error name.*cell.*gene
SELECT name FROM cell JOIN gene ON cell.marker = gene.name;
--: wrong all: does not name avg
--: error \bavg\b
SELECT average(x) FROM cell;
--: wrong all: does not name length
--: error \blength\b
SELECT strlen(s) FROM cell;
--: wrong all: does not name array_agg
--: error array_agg
SELECT list(x) FROM cell;
--: wrong all: does not name first_value
--: error first_value
SELECT arg_max(name, x) FROM cell;
--: wrong all: does not say which column, and where
--: error line 1.*louvain
SELECT name FROM cell WHERE louvain = 5;
--: wrong all: does not say which column, and where
--: error line 1.*maybe
SELECT name FROM cell WHERE maybe = 'nope';
--: wrong all: does not say which column, and where
--: error line 1.*x
SELECT x / 0 FROM cell;
--: wrong all: does not name LIMIT
--: error LIMIT
SELECT TOP 5 name FROM cell;
--: wrong all: does not say to quote the strings
--: error quote.*'T'|'T'.*quote
SELECT name FROM cell WHERE louvain IN (T, B);
--: wrong all: does not say that an alias is not known in WHERE
--: error HAVING|subquery
SELECT x + 1 AS more FROM cell WHERE more > 2;
--: wrong all: does not name daf describe
--: error daf describe
SUMMARIZE cell;
