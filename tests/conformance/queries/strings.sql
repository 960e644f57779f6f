-- Strings: comparison, LIKE, regular expressions, functions.
--: file only directory, indexed, collection, own

SELECT s || 'x', 'x' || s, s || donor FROM cell;
SELECT concat(s, 'x', donor), concat_ws('-', s, donor, 'z') FROM cell;
SELECT s || x, x || s FROM cell;
SELECT length(s), char_length(s), bit_length(s) FROM cell;
SELECT upper(s), lower(s), upper(donor) FROM cell;
--: datafusion it is a function of DataFusion
SELECT initcap(s) FROM cell;
SELECT left(s, 2), right(s, 2), left(s, -1), right(s, -1) FROM cell;
SELECT substr(s, 2), substr(s, 2, 2), substring(s, 1, 1) FROM cell;
SELECT substring(s FROM 2 FOR 2) FROM cell;
SELECT trim(s), ltrim(s, 'a'), rtrim(s, 'c') FROM cell;
SELECT trim(BOTH 'a' FROM s), trim(LEADING 'x' FROM s), trim(TRAILING 'c' FROM s) FROM cell;
SELECT lpad(s, 6, '*'), rpad(s, 6, '*'), lpad(s, 2, '*') FROM cell;
SELECT replace(s, 'b', 'BB'), translate(s, 'abc', '123'), reverse(s) FROM cell;
SELECT repeat(s, 2), repeat(s, 3) FROM cell;
SELECT repeat(s, 2) AS twice, repeat('ab', y) AS times FROM cell;
SELECT position('b' IN s), strpos(s, 'c'), instr(s, 'b') FROM cell;
SELECT starts_with(s, 'a'), ends_with(s, 'c'), contains(s, 'b') FROM cell;
SELECT split_part('a,b,c', ',', 2), split_part(name, 'c', 2) FROM cell;
--: datafusion DuckDB's chr takes an INTEGER
SELECT ascii(s), chr(65 + x) FROM cell;
SELECT md5(s) FROM cell;
--: datafusion the engine counts bytes, not characters
SELECT levenshtein(s, 'abc') FROM cell;
SELECT overlay(s PLACING 'ZZ' FROM 2 FOR 1) FROM cell;
SELECT coalesce(donor, 'none'), nullif(s, ''), nullif(donor, 'N1') FROM cell;
SELECT CASE WHEN s = '' THEN 'empty' WHEN donor IS NULL THEN 'no donor' ELSE s END FROM cell;
SELECT greatest(s, 'b'), least(s, donor) FROM cell;
SELECT s < donor, s = lower(s), donor > 'N1' FROM cell;
SELECT name FROM cell WHERE s LIKE 'a%';
SELECT name FROM cell WHERE s LIKE '%c';
SELECT name FROM cell WHERE s LIKE '%bc%';
SELECT name FROM cell WHERE s LIKE 'ab_';
SELECT name FROM cell WHERE s LIKE '___';
SELECT name FROM cell WHERE s LIKE 'abc';
SELECT name FROM cell WHERE s LIKE '';
SELECT name FROM cell WHERE s LIKE '%';
SELECT name FROM cell WHERE s LIKE '_t_';
SELECT name FROM cell WHERE s LIKE 'é%';
SELECT name FROM cell WHERE s NOT LIKE 'a%';
SELECT name FROM cell WHERE donor LIKE 'N%';
SELECT name FROM cell WHERE donor NOT LIKE 'N1%';
SELECT name FROM cell WHERE NOT donor LIKE 'N1%';
SELECT name FROM cell WHERE s ILIKE 'ABC%';
SELECT name FROM cell WHERE donor NOT ILIKE 'n%0';
SELECT name FROM cell WHERE donor ILIKE 'n3';
--: error LIKE does not support escape_char
SELECT name FROM cell WHERE s LIKE 'a!_b%' ESCAPE '!';
SELECT name FROM cell WHERE s LIKE 'a\_b%' ESCAPE '\';
--: datafusion in DuckDB a backslash needs ESCAPE
SELECT name FROM cell WHERE s LIKE 'a\_b%';
SELECT name FROM cell WHERE s LIKE NULL;
SELECT name FROM cell WHERE s LIKE left(s, 1) || '%';
SELECT name FROM cell WHERE s LIKE donor;
SELECT name FROM cell WHERE s LIKE 'a%' OR s LIKE 'z%';
SELECT name FROM cell WHERE s LIKE 'a%' AND s NOT LIKE '%c';
SELECT s LIKE 'a%', donor LIKE '%1', donor NOT LIKE 'N_' FROM cell;
SELECT name FROM cell WHERE name LIKE 'c1%' AND x > 2;
SELECT name FROM cell WHERE s ~ '^a';
SELECT name FROM cell WHERE s !~ 'c$';
SELECT name FROM cell WHERE s ~* '^ABC';
SELECT name FROM cell WHERE s ~ '^(abc|B)$';
--: datafusion it is a function of DataFusion
SELECT name FROM cell WHERE regexp_like(s, 'b.*c');
SELECT regexp_replace(s, 'b', 'X') FROM cell;
SELECT regexp_replace(s, '[a-c]', '.', 'g') FROM cell;
--: datafusion DuckDB has no function of this name
SELECT regexp_count(s, '[abc]') FROM cell;
--: datafusion DuckDB's is another function
SELECT regexp_match(s, '(b)(c)') FROM cell;
SELECT name FROM cell WHERE s SIMILAR TO '^abc$';
SELECT name FROM cell WHERE s IN ('abc', '', 'été');
SELECT name FROM cell WHERE s NOT IN ('abc', 'B');
SELECT name FROM cell WHERE s > 'abc' AND s < 'b';
SELECT name FROM cell WHERE upper(s) IN ('ABC', 'B');
SELECT name FROM cell WHERE length(donor) > 2;
SELECT name FROM cell WHERE position('b' IN s) = 2 OR x = 8;
SELECT name FROM cell WHERE donor || '' = 'N1';
SELECT name FROM cell WHERE coalesce(donor, '') = '';
SELECT name FROM cell WHERE marker = 'it''s';
SELECT name FROM cell WHERE marker IN ('β.1', 'none');
SELECT length(s) AS n, count(*), min(s), max(s) FROM cell GROUP BY length(s);
SELECT left(s, 1) AS first, count(*) FROM cell GROUP BY left(s, 1);
SELECT string_agg(DISTINCT donor, ',' ORDER BY donor) FROM cell;
SELECT count(DISTINCT upper(donor)), count(DISTINCT s) FROM cell;
--: ordered
SELECT DISTINCT s FROM cell ORDER BY s;
--: ordered
SELECT DISTINCT donor FROM cell ORDER BY donor DESC NULLS LAST;
--: ordered
SELECT s, count(*) FROM cell GROUP BY s ORDER BY lower(s), s DESC;
SELECT CAST(s AS VARCHAR), x::TEXT AS t FROM cell;
--: datafusion DuckDB has no strings in pieces
SELECT 'a' 'b';
SELECT 'abc' < 'abd', 'a' < 'B', '' < 'a', 'é' > 'z';
SELECT 'x'::TEXT, '1'::INT + 1;
SELECT string_to_array('a,b', ',') ;
SELECT array_length(string_to_array(name, '0')) FROM cell;
--: datafusion it is a function of DataFusion
SELECT to_char(DATE '2024-03-01', '%Y/%m/%d');
--: datafusion it is a function of DataFusion
SELECT find_in_set('b', 'a,b,c');
--: datafusion it is a function of DataFusion
SELECT substr_index('a.b.c', '.', 2);
SELECT uuid() IS NOT NULL FROM cell WHERE x = 1;
--: datafusion DuckDB's is another function
SELECT encode(s, 'hex') FROM cell WHERE s = 'abc';
SELECT E'a\nb', 'a\nb';
SELECT name FROM cell WHERE louvain LIKE marker || '%' OR stage NOT ILIKE s;
SELECT c.name, d.louvain FROM cell AS c JOIN cell AS d ON d.louvain LIKE '%' || c.donor;
