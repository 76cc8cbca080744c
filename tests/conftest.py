"""Eight CPU devices and strict array rules for every test."""

import gc
import os
import pathlib

os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import pytest  # noqa: E402

from jaxroll import parallel  # noqa: E402

parallel.virtual_devices(8)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update(
  "jax_compilation_cache_dir",
  str(pathlib.Path(__file__).parent.parent / ".jax_cache"),
)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)

# A process may have 65530 mappings by default, a compiled function has some of
# them, and XLA aborts where it gets no more.
_MAPS = pathlib.Path("/proc/self/maps")
_MOST_MAPS = 30_000


@pytest.fixture(autouse=True, scope="module")
def few_mappings():
  """Lets go of compiled functions before there are too many of them."""
  yield
  if _MAPS.exists() and _MAPS.read_bytes().count(b"\n") > _MOST_MAPS:
    jax.clear_caches()
    gc.collect()
