"""The kernels compile for TPUs, at a large model's sizes and at odd ones."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from experiments.planning import topologies

LIBTPU = topologies.libtpu_folder()
ROOT = pathlib.Path(__file__).parent.parent.parent


@pytest.mark.skipif(
  not (LIBTPU / "libtpu").is_dir(),
  reason=f"no TPU compiler: pip install --target {LIBTPU} 'libtpu==0.0.42.*'",
)
@pytest.mark.parametrize("topology", ["v5e:2x2", "v6e:2x2"])
def test_compiled_for_a_tpu(topology):
  environment = {
    **os.environ,
    "JAX_PLATFORMS": "cpu",
    "PYTHONPATH": os.pathsep.join([str(LIBTPU), str(ROOT)]),
    # It only compiles, and so may another process at the same time.
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_SKIP_MDS_QUERY": "1",
  }
  process = subprocess.run(
    [sys.executable, "-m", "tests.kernels.lowering_worker", topology],
    env=environment,
    cwd=ROOT,
    capture_output=True,
    text=True,
  )
  assert process.returncode == 0, process.stderr[-3000:]
  found = json.loads(process.stdout.splitlines()[-1])
  for name, made in found.items():
    # Prefixes and own columns; the value and two gradients.
    assert made["kernels"] == (2 if "attention" in name else 3), name
  # No copy of a cache (67 MB), of the prefixes (4 MB), or of logits (1.2 GB).
  assert found["attention"]["temp"] < 4e6
  assert found["logp"]["temp"] < 4e6
  # Nor of a [V, D] in hidden's dtype (9 MB).
  assert found["logp_tied"]["temp"] < 4e6
