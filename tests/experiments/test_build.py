"""What a config's strings become."""

import pytest

from experiments import build
from jaxroll import advantage, keep, objective, recipe, select, trust, types
from tests.experiments import tiny

SIZES = types.Sizes(
  num_ids=40, prompts=8, rows=64, prompt_length=5, response_length=6
)


def rules(**fields):
  config = tiny.get_config()
  config.update(fields)
  return build.rules(config, SIZES)


def test_functions_are_replaced_and_the_rest_stays():
  made = rules(
    select="select.random",
    advantage="advantage.rloo",
    trust="trust.clip,trust.token_weight",
    objective="objective.gspo",
    aggregate="sequence_mean",
    epochs=2,
    minibatches=3,
  )
  assert made.select == (select.random,)
  assert made.advantage == (advantage.rloo,)
  assert made.trust == (trust.clip, trust.token_weight)
  (loss,) = made.losses
  assert loss.fn is objective.gspo
  assert loss.aggregate is objective.aggregate.sequence_mean
  assert (made.epochs, made.minibatches) == (2, 3)
  assert made.keep == (keep.committed,)  # pilot_commit's own
  assert made.replay is not None and not made.reference


def test_kl_brings_its_reference():
  made = rules(kl_coefficient=0.1)
  policy, kl = made.losses
  assert (kl.fn, kl.coefficient) == (objective.kl, 0.1)
  assert kl.aggregate is policy.aggregate
  assert made.reference and "ref_logp" in recipe.needs(made)


def test_constant_length_is_the_task_s_limit():
  (loss,) = rules(aggregate="constant_length").losses
  assert loss.aggregate.keywords == {"limit": 6}


@pytest.mark.parametrize("chain", ["trust.clip,trust.nothing", "clip"])
def test_a_wrong_link_is_named(chain):
  with pytest.raises(ValueError, match=chain.split(",")[-1]):
    rules(trust=chain)
