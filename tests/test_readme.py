"""README's own loop runs as it stands, and learns."""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent


def test_custom_loop():
  text = (ROOT / "README.md").read_text(encoding="utf-8")
  blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
  (loop,) = [block for block in blocks if "rollout.generate" in block]
  environment = os.environ | {
    "PYTHONPATH": str(ROOT),
    "JAX_PLATFORMS": "cpu",
    "JAX_COMPILATION_CACHE_DIR": str(ROOT / ".jax_cache"),
  }
  for name in ("XLA_FLAGS", "NPROC"):  # one device, as a reader has
    environment.pop(name)
  done = subprocess.run(
    [sys.executable, "-c", loop],
    env=environment,
    capture_output=True,
    text=True,
    timeout=500,
  )
  assert done.returncode == 0, done.stderr
  right = [int(percent) for percent in re.findall(r"(\d+)%", done.stdout)]
  assert len(right) >= 3
  # Fixed seed; seen: 25% at first, 42% at last.
  assert right[-1] >= right[0] + 8, done.stdout
