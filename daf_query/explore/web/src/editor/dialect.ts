// The words of the SQL dialect: those that cannot be a column's name, so that `name` and `type` look like columns.
import { SQLDialect } from "@codemirror/lang-sql";

const KEYWORDS = "all and any as asc between by case cast cross current desc describe distinct else end escape except exclude exists "
  + "explain extract filter first following from full group having ilike in inner intersect interval into is join last lateral left "
  + "like limit natural not nulls offset on or order outer over partition preceding qualify range recursive replace right row rows "
  + "select similar show tables then to try_cast unbounded union unnest using values view when where window with within";
const FUNCTIONS = "abs approx_distinct approx_percentile_cont array_agg avg bool_and bool_or category_order ceil coalesce concat corr count "
  + "covar_pop date_bin date_part date_trunc dense_rank exp first_value floor greatest lag last_value lead least length ln log log10 log2 lower "
  + "max median min ntile nullif percent_rank power random rank regexp_like regexp_replace round row_number sign split_part sqrt stddev "
  + "strpos substr sum trim trunc upper var_pop var_sample matrix profile";
const TYPES = "bigint boolean date decimal double float int integer real smallint string text timestamp varchar";

export const dialect = SQLDialect.define({
  keywords: KEYWORDS, builtin: FUNCTIONS, types: TYPES, operatorChars: "+-*/%<>=!~|&^", identifierQuotes: '"', caseInsensitiveIdentifiers: false,
});
