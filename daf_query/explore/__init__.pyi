from daf_query.explore._app import ExploreServer as ExploreServer
from daf_query.explore._app import app as app
from daf_query.explore._explorer import ExploredData as ExploredData
from daf_query.explore._explorer import ExploreLimits as ExploreLimits
