"""HTML for notebooks: small pieces of it, and previews of the values of a column.

**Nouns.** *Markup* is HTML in which every string of the data is escaped.  A *preview* is what was
seen of a column: how many values were looked at, their range, how they are distributed, the most
frequent ones.  A *budget* is how much all previews of one page may take.

Must not know data sets, files or queries: it is given values.
"""

from daf_storage.display._markup import (
    Markup,
    html_details,
    html_element,
    html_page,
    html_table,
    joined_html,
    readable_bytes,
    shortened,
)
from daf_storage.display._preview import (
    PREVIEW_ROWS,
    Preview,
    PreviewBudget,
    preview_cells,
    preview_of,
    shown_values,
)
