from daf_query.flight_sql._answers import FlightSqlLimits as FlightSqlLimits
from daf_query.flight_sql._server import FlightSqlServer as FlightSqlServer
from daf_query.flight_sql._server import is_loopback as is_loopback
