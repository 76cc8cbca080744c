"""Every example in a docstring is true."""

import doctest
import importlib
import pkgutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxroll

NAMES = sorted(
  found.name
  for found in pkgutil.walk_packages(jaxroll.__path__, "jaxroll.")
  # Their examples are patterns of use around a run's directory.
  if found.name
  not in (
    "jaxroll.checkpoint",
    "jaxroll.metrics",
    "jaxroll.report",
  )
)


@pytest.mark.parametrize("name", NAMES)
def test_examples(name):
  module = importlib.import_module(name)
  known = {"jax": jax, "jnp": jnp, "np": np} | vars(module)
  # Examples are written for readers, who have the default promotion rules.
  with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
    result = doctest.testmod(
      module,
      extraglobs=known,
      optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS,
    )
  assert not result.failed
