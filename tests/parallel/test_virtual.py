"""Is a process ready for virtual devices?"""

import os
import pathlib
import subprocess
import sys


def test_virtual_devices():
  program = """
import os, jax
from jaxroll import parallel
parallel.virtual_devices()
assert "NPROC" not in os.environ
for wrong in (0, -1):
  try:
    parallel.virtual_devices(wrong)
  except ValueError as error:
    assert f"num={wrong}" in str(error)
  else:
    raise SystemExit("not refused")
parallel.virtual_devices(3)
parallel.virtual_devices(3)
try:
  parallel.virtual_devices(4)
except ValueError as error:
  assert "count=3" in str(error)
else:
  raise SystemExit("not refused")
assert jax.device_count() == 3
assert int(os.environ["NPROC"]) == 24
assert not jax.config.values["jax_cpu_enable_async_dispatch"]
"""
  environment = {"JAX_PLATFORMS": "cpu", "PATH": os.environ["PATH"]}
  process = subprocess.run(
    [sys.executable, "-c", program],
    env=environment,
    cwd=pathlib.Path(__file__).parent.parent.parent,
    capture_output=True,
    text=True,
  )
  assert process.returncode == 0, process.stderr
