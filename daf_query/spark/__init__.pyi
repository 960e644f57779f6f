from daf_query.spark._query import DafDataSource as DafDataSource
from daf_query.spark._query import register as register
from daf_query.spark._query import sql as sql
