from daf_query.training._batches import RowBlocks as RowBlocks
from daf_query.training._sampler import Expressions as Expressions
from daf_query.training._sampler import IfChanged as IfChanged
from daf_query.training._sampler import Sampler as Sampler
from daf_query.training._sampler import load_sampler as load_sampler
from daf_query.training._sampler import make_sampler as make_sampler
from daf_query.training._splits import Shares as Shares
