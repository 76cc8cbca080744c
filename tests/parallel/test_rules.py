"""Does the table know every parameter, and where does it put them?"""

import re

import jax
import optax
import pytest
from jax.sharding import PartitionSpec as Spec

from jaxroll import models, parallel
from jaxroll.models import families, lora
from tests.models import tiny

# What the families of `models.families` differ in.
FAMILIES = {
  "llama": {},
  "mistral": {"windows": (3, 0)},
  "qwen2": {"qkv_bias": True, "o_bias": True},
  "qwen3": {"qk_norm": True, "tied_embedding": False},
  "qwen3_moe": {"qk_norm": True, "experts": models.Experts(4, 2)},
}
TARGETS = ("q", "k", "v", "o", "gate", "up", "down")


def test_every_family_is_here():
  assert set(FAMILIES) == set(families._CLASSES)


def paths(tree):
  """Path -> shape of every leaf."""
  return {
    jax.tree_util.keystr(path, simple=True, separator="/"): leaf.shape
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
  }


def rule_of(path):
  return next(
    (spec for pattern, spec in parallel.RULES if re.search(pattern, path)), None
  )


@pytest.mark.parametrize("family", FAMILIES)
def test_every_parameter_has_a_rule(family):
  config = tiny.config(**FAMILIES[family])
  params = jax.eval_shape(models.policy(config).init, jax.random.key(0))
  found = paths(params)
  assert set(found) == {"/".join(t.path) for t in families.tensors(config)}
  for path, shape in found.items():
    rule = rule_of(path)
    assert rule is not None, path
    assert len(rule) <= len(shape), path


@pytest.mark.parametrize(
  "family, targets",
  [("qwen2", TARGETS), ("qwen3_moe", ("q", "o", "router"))],
)
def test_every_adapter_has_a_rule(family, targets):
  base = models.policy(tiny.config(**FAMILIES[family]))
  frozen = base.init(jax.random.key(0))
  lm = lora.policy(base, frozen, rank=2, targets=targets)
  found = paths(jax.eval_shape(lm.init, jax.random.key(0)))
  assert len(found) == 2 * len(targets)
  assert all(rule_of(path) is not None for path in found)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_optimisers_state_lies_as_its_parameters(family):
  mesh = parallel.make_mesh(fsdp=2, tensor=2, expert=2, data=1)
  config = tiny.config(**FAMILIES[family])
  params = jax.eval_shape(models.policy(config).init, jax.random.key(0))
  state = jax.eval_shape(optax.adamw(1e-3).init, params)
  where = parallel.shardings(params, mesh)
  moments = parallel.shardings(state, mesh)[0]
  assert moments.mu == where and moments.nu == where
  whole = [x for x in jax.tree.leaves(where) if x.is_fully_replicated]
  assert 0 < len(whole) < len(jax.tree.leaves(where))


@pytest.mark.parametrize(
  "path, shape, expected",
  [
    ("layers/experts/gate", (2, 4, 8, 6), Spec(None, "expert", None, "tensor")),
    ("layers/experts/down", (2, 4, 6, 8), Spec(None, "expert", "tensor")),
    ("layers/experts/up", (2, 3, 8, 6), Spec(None, None, None, "tensor")),
    ("layers/experts/router/kernel", (2, 8, 4), Spec()),
    ("adapters/layers/q/lora_a", (2, 8, 2), Spec()),
    ("adapters/layers/q/lora_b", (2, 2, 8), Spec(None, None, "tensor")),
    ("adapters/layers/o/lora_a", (2, 8, 2), Spec(None, "tensor")),
  ],
)
def test_experts_and_adapters(path, shape, expected):
  mesh = parallel.make_mesh(data=2, tensor=2, expert=2)
  assert parallel.spec_for(path, shape, mesh) == expected


def test_a_mesh_without_an_axis():
  mesh = jax.make_mesh((8,), ("fsdp",))
  assert parallel.row_shards(mesh) == 8
  spec = parallel.spec_for("embed/embedding", (24, 32), mesh)
  assert spec == Spec(None, "fsdp")


@pytest.mark.parametrize(
  "path, shape, expected",
  [
    ("params/layers/q/kernel", (2, 32, 32), Spec(None, "fsdp", "tensor")),
    ("params/layers/q/kernel", (2, 32, 31), Spec(None, "fsdp")),
    ("params/layers/q/kernel", (2, 31, 32), Spec(None, None, "tensor")),
    ("params/layers/q/bias", (2, 32), Spec(None, "tensor")),
    ("params/layers/q_norm/scale", (2, 8), Spec()),
    ("params/embed/embedding", (25, 32), Spec(None, "fsdp")),
    ("stats/alpha", (40,), Spec("data")),
    ("stats/alpha", (41,), Spec()),
    ("params/head/kernel", (6, 3), Spec("fsdp")),
    ("methods/replay/born", (40,), Spec()),
    ("head/kernel", (32,), Spec()),
    ("step", (), Spec()),
  ],
)
def test_spec_for(path, shape, expected):
  mesh = parallel.make_mesh(data=2, fsdp=2, tensor=2)
  assert parallel.spec_for(path, shape, mesh) == expected


def test_axes_that_split_nothing_are_not_named():
  mesh = parallel.make_mesh(data=8)
  for path in ("params/layers/q/kernel", "params/embed/embedding"):
    assert parallel.spec_for(path, (8, 8, 8), mesh) == Spec()
  assert parallel.spec_for("stats/alpha", (8,), mesh) == Spec("data")


def test_a_dimension_over_two_axes():
  mesh = parallel.make_mesh(data=4, fsdp=2)
  rules = ((r"", Spec(("data", "fsdp"))),)
  assert parallel.spec_for("x", (16,), mesh, rules) == Spec(("data", "fsdp"))
  assert parallel.spec_for("x", (12,), mesh, rules) == Spec()


def test_the_first_rule_decides_and_none_means_whole():
  mesh = parallel.make_mesh(data=8)
  rules = ((r"mine$", Spec("data")), (r"mi", Spec(None, "data")))
  assert parallel.spec_for("a/mine", (8, 8), mesh, rules) == Spec("data")
  assert parallel.spec_for("a/mint", (8, 8), mesh, rules) == Spec(None, "data")
  assert parallel.spec_for("a/other", (8, 8), mesh, rules) == Spec()
