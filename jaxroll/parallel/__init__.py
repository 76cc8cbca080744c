"""Where does everything lie? Meshes and one table of sharding rules.

`jax.jit` with NamedShardings does the rest: a step is the same function on one
device and on many.
"""

from jaxroll.parallel.mesh import AXES as AXES
from jaxroll.parallel.mesh import ROW_AXES as ROW_AXES
from jaxroll.parallel.mesh import RULES as RULES
from jaxroll.parallel.mesh import make_mesh as make_mesh
from jaxroll.parallel.mesh import rows as rows
from jaxroll.parallel.mesh import shardings as shardings
from jaxroll.parallel.mesh import spec_for as spec_for
from jaxroll.parallel.virtual import virtual_devices as virtual_devices

__all__ = [
  "AXES",
  "ROW_AXES",
  "RULES",
  "make_mesh",
  "rows",
  "shardings",
  "spec_for",
  "virtual_devices",
]
