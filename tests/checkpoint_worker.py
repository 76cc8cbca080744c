"""Saves step 1, then begins a large step 2 and waits to be killed.

Run by tests/test_checkpoint.py: python -m tests.checkpoint_worker DIRECTORY
"""

import sys
import time

import jax
import numpy as np

from jaxroll import checkpoint

# Random bytes don't compress: writing them takes a while.
WORDS = 2**23


def state_of(step: int) -> dict:
  """Returns the state that the worker has at a step: 32 MiB."""
  words = np.random.default_rng(step).integers(0, 2**32, WORDS, np.uint32)
  return {"words": jax.numpy.asarray(words)}


if __name__ == "__main__":
  with checkpoint.Checkpoints(sys.argv[1]) as checkpoints:
    checkpoints.save(1, state_of(1), {"step": 1})
    checkpoints.wait()
    second = state_of(2)
    print("ready", flush=True)
    checkpoints.save(2, second, {"step": 2})
    checkpoints.wait()
    print("saved", flush=True)
    time.sleep(600)
