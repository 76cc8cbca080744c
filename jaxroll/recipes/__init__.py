"""Which compositions are there? One file a paper: (sizes, ...) -> Recipe.

  recipe            selects          allocates                  paper
  aero              random           chunks until a success     2602.14338
  apriel            sources behind   equal groups               2604.02007
  ar3po             random           stages until a success     2509.25808
  bar               random           chunks until balanced      2605.15040
  bell_weight       random           equal, weighted by rate    2609.06107
  cbs               random           equal, a bandit keeps      2602.08499
  coba_rl           random           by value of solve rate     2602.03048
  d3_mopd           sources rising   equal groups               2608.24987
  dapo              random           flat groups again          2503.14476
  dars_et           random           hard prompts twice         2508.13755
  dars_hw           random           hard prompts twice         2508.13755
  dart              random           less to what is solved     2509.23866
  difficulty_band   random           equal, middling kept       2609.06107
  dots              rate near 1/2    equal groups               2506.05316
  dynamic_sampling  random           equal, mixed kept          2503.14476
  e3                random           by rank of reward          2505.18573
  elimination       random           rounds until mixed         2510.04996
  epsilon_greedy    epsilon-greedy   equal groups               2503.22595
  far               random           chunks if all wrong        2606.31504
  gfpo              random           equal, the shortest kept   2508.09726
  greso             greso            equal, mixed kept          2506.02177
  hive              hive             equal groups               2603.25184
  lineage           source ladder    equal groups               2609.04128
  moderate          rate near 1/2    equal groups               2506.05316
  neyman            random           by reward deviation        Neyman 1934
  pilot_commit      random           pilots, then commits       2605.26606
  pods              random           equal, contrast kept       2504.13818
  reward_gap        sources behind   equal groups               2609.06107
  roll              random           equal, means filtered      2506.06122
  slot_elimination  random           at the slot, until mixed   2510.04996
  slot_mixed        random           at the slot, by P(mixed)   (derived)
  slot_variance     random           at the slot, by variance   (derived)
  softmax_weight    random           equal, weighted by |adv|   2609.06107
  strata            sources equally  equal groups               2601.02439
  tablegpt          by difficulty    equal groups               2512.20312
  thompson          random           at drawn solve rates       Thompson 1933
  thompson_select   thompson         equal groups               1707.09727
  top_advantage     random           equal, largest |adv| kept  2609.06107
  trace             random           to likely mixed groups     2606.11119
  tscl              sources moving   equal groups               1707.00183
  ucb               ucb              equal groups               2503.22595
  ucb_mixture       sources by ucb   equal groups               2609.06107
  uniform           random           equal groups               2402.03300
  v05               random           to wrong predictions       2603.10848
  vade              vade             equal groups               2511.18902
  vigor             random           rounds that double         2607.22002
  xrpo              random           to the widest interval     2510.06672

A recipe is a NamedTuple: `recipes.vigor(sizes)._replace(select=(select.vade,))`
is another one.
"""

from jaxroll.recipes._aero import aero as aero
from jaxroll.recipes._apriel import apriel as apriel
from jaxroll.recipes._ar3po import ar3po as ar3po
from jaxroll.recipes._bar import bar as bar
from jaxroll.recipes._bell_weight import bell_weight as bell_weight
from jaxroll.recipes._cbs import cbs as cbs
from jaxroll.recipes._coba_rl import coba_rl as coba_rl
from jaxroll.recipes._d3_mopd import d3_mopd as d3_mopd
from jaxroll.recipes._dapo import dapo as dapo
from jaxroll.recipes._dars_et import dars_et as dars_et
from jaxroll.recipes._dars_hw import dars_hw as dars_hw
from jaxroll.recipes._dart import dart as dart
from jaxroll.recipes._difficulty_band import difficulty_band as difficulty_band
from jaxroll.recipes._dots import dots as dots
from jaxroll.recipes._dynamic_sampling import (
  dynamic_sampling as dynamic_sampling,
)
from jaxroll.recipes._e3 import e3 as e3
from jaxroll.recipes._elimination import elimination as elimination
from jaxroll.recipes._epsilon_greedy import epsilon_greedy as epsilon_greedy
from jaxroll.recipes._far import far as far
from jaxroll.recipes._gfpo import gfpo as gfpo
from jaxroll.recipes._greso import greso as greso
from jaxroll.recipes._hive import hive as hive
from jaxroll.recipes._lineage import lineage as lineage
from jaxroll.recipes._moderate import moderate as moderate
from jaxroll.recipes._neyman import neyman as neyman
from jaxroll.recipes._pilot_commit import pilot_commit as pilot_commit
from jaxroll.recipes._pods import pods as pods
from jaxroll.recipes._reward_gap import reward_gap as reward_gap
from jaxroll.recipes._roll import roll as roll
from jaxroll.recipes._slot_elimination import (
  slot_elimination as slot_elimination,
)
from jaxroll.recipes._slot_mixed import slot_mixed as slot_mixed
from jaxroll.recipes._slot_variance import slot_variance as slot_variance
from jaxroll.recipes._softmax_weight import softmax_weight as softmax_weight
from jaxroll.recipes._strata import strata as strata
from jaxroll.recipes._tablegpt import tablegpt as tablegpt
from jaxroll.recipes._thompson import thompson as thompson
from jaxroll.recipes._thompson_select import thompson_select as thompson_select
from jaxroll.recipes._top_advantage import top_advantage as top_advantage
from jaxroll.recipes._trace import trace as trace
from jaxroll.recipes._tscl import tscl as tscl
from jaxroll.recipes._ucb import ucb as ucb
from jaxroll.recipes._ucb_mixture import ucb_mixture as ucb_mixture
from jaxroll.recipes._uniform import uniform as uniform
from jaxroll.recipes._v05 import v05 as v05
from jaxroll.recipes._vade import vade as vade
from jaxroll.recipes._vigor import vigor as vigor
from jaxroll.recipes._xrpo import xrpo as xrpo

__all__ = [
  "aero",
  "apriel",
  "ar3po",
  "bar",
  "bell_weight",
  "cbs",
  "coba_rl",
  "d3_mopd",
  "dapo",
  "dars_et",
  "dars_hw",
  "dart",
  "difficulty_band",
  "dots",
  "dynamic_sampling",
  "e3",
  "elimination",
  "epsilon_greedy",
  "far",
  "gfpo",
  "greso",
  "hive",
  "lineage",
  "moderate",
  "neyman",
  "pilot_commit",
  "pods",
  "reward_gap",
  "roll",
  "slot_elimination",
  "slot_mixed",
  "slot_variance",
  "softmax_weight",
  "strata",
  "tablegpt",
  "thompson",
  "thompson_select",
  "top_advantage",
  "trace",
  "tscl",
  "ucb",
  "ucb_mixture",
  "uniform",
  "v05",
  "vade",
  "vigor",
  "xrpo",
]
