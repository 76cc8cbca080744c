"""Eight CPU devices and strict array rules for every test."""

import os
import pathlib

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = (
  os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
)

import jax  # noqa: E402

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
# Collectives of two programs in flight at once can starve each other of the
# CPU runtime's threads: one after the other.
jax.config.update("jax_cpu_enable_async_dispatch", False)
jax.config.update(
  "jax_compilation_cache_dir",
  str(pathlib.Path(__file__).parent.parent / ".jax_cache"),
)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
