from daf_query.profile._profile import MarkerTest as MarkerTest
from daf_query.profile._profile import Profile as Profile
from daf_query.profile._profile import ProfilePlots as ProfilePlots
from daf_query.profile._profile import marker_rows as marker_rows
from daf_query.profile._profile import prepared_profile as prepared_profile
from daf_query.profile._profile import prepared_totals as prepared_totals
