"""Where does everything lie? Meshes and one table of sharding rules.

`jax.jit` with NamedShardings does the rest: a step is the same function on one
device and on many.
"""

from jaxroll.parallel.activations import bound as bound
from jaxroll.parallel.activations import constrain as constrain
from jaxroll.parallel.activations import free_axes as free_axes
from jaxroll.parallel.activations import rows as rows
from jaxroll.parallel.activations import spread as spread
from jaxroll.parallel.mesh import AXES as AXES
from jaxroll.parallel.mesh import ROW_AXES as ROW_AXES
from jaxroll.parallel.mesh import check as check
from jaxroll.parallel.mesh import make_mesh as make_mesh
from jaxroll.parallel.mesh import round_up as round_up
from jaxroll.parallel.mesh import row_shards as row_shards
from jaxroll.parallel.processes import check_same as check_same
from jaxroll.parallel.processes import is_first as is_first
from jaxroll.parallel.processes import own_rows as own_rows
from jaxroll.parallel.processes import place as place
from jaxroll.parallel.processes import start_processes as start_processes
from jaxroll.parallel.processes import to_host as to_host
from jaxroll.parallel.rules import RULES as RULES
from jaxroll.parallel.rules import shardings as shardings
from jaxroll.parallel.rules import spec_for as spec_for
from jaxroll.parallel.submeshes import row_shardings as row_shardings
from jaxroll.parallel.submeshes import split_devices as split_devices
from jaxroll.parallel.submeshes import transfer as transfer
from jaxroll.parallel.submeshes import whole as whole
from jaxroll.parallel.virtual import virtual_devices as virtual_devices

__all__ = [
  "AXES",
  "ROW_AXES",
  "RULES",
  "bound",
  "check",
  "check_same",
  "constrain",
  "free_axes",
  "is_first",
  "make_mesh",
  "own_rows",
  "place",
  "round_up",
  "row_shardings",
  "row_shards",
  "rows",
  "shardings",
  "spec_for",
  "split_devices",
  "spread",
  "start_processes",
  "to_host",
  "transfer",
  "virtual_devices",
  "whole",
]
