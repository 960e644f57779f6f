from daf_query.profile._prepared import MarkerTest as MarkerTest
from daf_query.profile._prepared import marker_rows as marker_rows
from daf_query.profile._prepared import prepared_profile as prepared_profile
from daf_query.profile._prepared import prepared_totals as prepared_totals
from daf_query.profile._profile import Profile as Profile
from daf_query.profile._profile import ProfilePlots as ProfilePlots
