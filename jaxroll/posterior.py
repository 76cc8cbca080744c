r"""What is believed about each prompt's solve rate, and how is it updated?

The solve rate of a prompt is Beta(alpha, beta) a posteriori: successes and
failures of its evidence rows are added to a Beta prior. Because the policy
moves, old counts are forgotten by two factors: `decay` for every prompt at
every step, `local` for the prompts that were rolled out in it:

  a_i <- (local if i was rolled out else 1) * decay * a_i + successes_i,

a_i = alpha_i - prior_alpha, and alike for failures and for the weight behind
the reward's mean and deviations. A reward in (0, 1) is a fractional success.

Discounted Beta posteriors: Raj & Kalyani, "Taming non-stationary bandits",
2017, arXiv:1707.09727. Two scales of decay: VADE, 2025, arXiv:2511.18902.

Note:
  VADE names the two scales; the rule above, in which a rolled out prompt is
  decayed by both and moments and length decay like the counts, is derived
  here: the source does not state it.
"""

import chex
import jax
import jax.numpy as jnp
from jax import lax

from jaxroll import beta_draws, numerics, types


def init(num_ids, *, prior=(1.0, 1.0)):
  """Beliefs before any rollout: the prior, and moments of weight 0.

  Args:
    num_ids: N, static.
    prior: (alpha, beta) of the Beta prior, floats > 0.

  Returns: PromptStats [N].

  Raises:
    ValueError: a prior that is not positive.

  >>> init(2).alpha
  Array([1., 1.], dtype=float32)
  """
  _check_prior(prior)
  # One buffer a field: a donated state must not hold the same one twice.
  return types.PromptStats(
    alpha=jnp.full((num_ids,), prior[0], jnp.float32),
    beta=jnp.full((num_ids,), prior[1], jnp.float32),
    weight=jnp.zeros((num_ids,), jnp.float32),
    mean=jnp.zeros((num_ids,), jnp.float32),
    m2=jnp.zeros((num_ids,), jnp.float32),
    length=jnp.zeros((num_ids,), jnp.float32),
    seen=jnp.full((num_ids,), -1, jnp.int32),
  )


def observe(
  stats,
  ids,
  reward,
  length,
  group,
  where,
  *,
  step,
  local=1.0,
  decay=1.0,
  prior=(1.0, 1.0),
):
  """Beliefs after a step: forget, then add the step's evidence. Once a step.

  Args:
    stats: PromptStats [N].
    ids: i32[P], the step's prompts; -1 is an empty slot. An id that stands
      twice gathers the evidence of both slots and is decayed once.
    reward: f32[B], any range; clipped to [0, 1] for the counts only. Unread
      where `where` is False, as is length.
    length: i32[B], tokens of the rollout.
    group: i32[B], row's place in ids; rows outside [0, P) are dropped.
    where: bool[B], rows that are evidence.
    step: i32[], written to `seen` of the prompts with evidence.
    local: in [0, 1], kept of the old counts of prompts with evidence.
    decay: in [0, 1], kept of everybody's old counts.
    prior: (alpha, beta) that counts decay towards: the one given to `init`.

  Returns: PromptStats [N].

  Raises:
    ValueError: a factor outside [0, 1] or a prior that is not positive.

  >>> group, where = jnp.array([0, 0, 0]), jnp.array([True, True, True])
  >>> stats = observe(
  ...   init(2), jnp.array([1]), jnp.array([1.0, 1.0, 0.0]),
  ...   jnp.array([5, 6, 7]), group, where, step=0)
  >>> stats.alpha.tolist(), stats.beta.tolist(), stats.length.tolist()
  ([1.0, 3.0], [1.0, 2.0], [0.0, 6.0])
  """
  _check_prior(prior)
  _check_factor("local", local)
  _check_factor("decay", decay)
  chex.assert_rank([ids, reward, length, group, where], 1)
  chex.assert_equal_shape([reward, length, group, where])
  num_ids, num_slots = stats.alpha.shape[0], ids.shape[0]

  inside = (ids >= 0) & (ids < num_ids)
  # Everything that is not decay alone is worked out by slot: the task may be
  # a thousand times larger. Slots of one id gather in the first of them.
  slots = jnp.arange(num_slots, dtype=jnp.int32)
  place = jnp.where(inside, ids, num_ids)
  first = jnp.full((num_ids,), num_slots, jnp.int32)
  first = first.at[place].min(slots, mode="drop")
  gathers = jnp.where(inside, first[jnp.where(inside, ids, 0)], num_slots)
  slot = jnp.clip(group, 0, num_slots - 1)
  where = where & (group >= 0) & (group < num_slots)
  evidence = (gathers[slot], num_slots, where)
  count, mean, m2 = numerics.group_moments(reward, *evidence)
  success = numerics.group_sum(jnp.clip(reward, 0.0, 1.0), *evidence)
  mean_length = numerics.group_mean(length, *evidence)

  faded = _fade(stats, decay, prior)
  old = jax.tree.map(lambda x: x[jnp.where(inside, ids, 0)], stats)
  old = _fade(old, decay * jnp.asarray(local, jnp.float32), prior)
  weight, new_mean, new_m2 = numerics.merge_moments(
    (old.weight, old.mean, old.m2), (count, mean, m2)
  )
  zero = jnp.zeros_like(old.weight)
  _, new_length, _ = numerics.merge_moments(
    (old.weight, old.length, zero), (count, mean_length, zero)
  )
  new = types.PromptStats(
    alpha=old.alpha + success,
    beta=old.beta + (count - success),
    weight=weight,
    mean=new_mean,
    m2=new_m2,
    length=new_length,
    seen=jnp.full((num_slots,), step, jnp.int32),
  )
  place = jnp.where(count > 0, ids, num_ids)
  return jax.tree.map(lambda x, y: x.at[place].set(y, mode="drop"), faded, new)


# --- what the beliefs say


def mean(stats):
  """Expected solve rate, alpha / (alpha + beta).

  Args: stats: PromptStats [N].

  Returns: f32[N] in (0, 1).

  >>> mean(init(1, prior=(1.0, 3.0)))
  Array([0.25], dtype=float32)
  """
  return stats.alpha / (stats.alpha + stats.beta)


def variance(stats):
  """Variance of the solve rate, alpha beta / ((alpha+beta)^2 (alpha+beta+1)).

  Args: stats: PromptStats [N].

  Returns: f32[N] in (0, 1/4).

  >>> variance(init(1, prior=(1.0, 3.0)))
  Array([0.0375], dtype=float32)
  """
  p = mean(stats)
  return p * (1 - p) / (stats.alpha + stats.beta + 1)


def expected_bernoulli_variance(alpha, beta):
  """E[p (1 - p)] = alpha beta / ((alpha + beta) (alpha + beta + 1)).

  Args: alpha, beta: f32[...] > 0.

  Returns: f32[...] in (0, 1/4): the reward's variance within a prompt.

  >>> float(expected_bernoulli_variance(jnp.array(1.0), jnp.array(3.0)))
  0.15000000596046448
  """
  total = alpha + beta
  return (alpha / total) * (beta / (total + 1))


def prob_mixed(alpha, beta, n):
  """Probability that n rollouts are neither all right nor all wrong.

    1 - prod_{i<n} (alpha + i) / (alpha + beta + i)
      - prod_{i<n} (beta + i) / (alpha + beta + i)

  under the beta-binomial of p ~ Beta(alpha, beta): the chance that a group
  of n has any signal.

  Args:
    alpha, beta: f32[...] > 0.
    n: i32, static or traced, a scalar or an array of alpha's shape or
      broadcastable to it; the time is proportional to its largest entry.

  Returns: f32[...] in [0, 1]; 0 where n < 2.

  >>> round(float(prob_mixed(jnp.array(1.0), jnp.array(1.0), 3)), 6)  # 1 - 2/4
  0.5
  """
  alpha, beta = (jnp.asarray(x, jnp.float32) for x in (alpha, beta))
  n = jnp.asarray(n, jnp.int32)
  shape = jnp.broadcast_shapes(alpha.shape, beta.shape, n.shape)

  def add_rollout(i, logs):
    total = alpha + beta + i.astype(jnp.float32)
    # log((alpha + i) / total) keeps its digits when beta / total is tiny.
    more = (jnp.log1p(-beta / total), jnp.log1p(-alpha / total))
    return tuple(log + jnp.where(i < n, x, 0.0) for log, x in zip(logs, more))

  logs = (jnp.zeros(shape, jnp.float32), jnp.zeros(shape, jnp.float32))
  right, wrong = lax.fori_loop(0, jnp.max(n), add_rollout, logs)
  likelier, other = jnp.maximum(right, wrong), jnp.minimum(right, wrong)
  # 1 - right - wrong without cancellation when either is close to 1.
  mixed = -jnp.expm1(likelier) - jnp.exp(other)
  return jnp.where(n < 2, 0.0, jnp.maximum(mixed, 0.0))


def draw(stats, key):
  """Thompson draws: one solve rate per prompt from its posterior.

  Args:
    stats: PromptStats [N].
    key: PRNG key; a prompt's draw depends on it and on the prompt's id and
      beliefs.

  Returns: f32[N] in [0, 1].

  Note:
    Exact, some 25 nanoseconds a prompt on two cores. `beta_draws.draw` with
    its `ids` draws for a part of the task what this draws for the whole.

  >>> draw(init(3), jax.random.key(0)).shape
  (3,)
  """
  return beta_draws.draw(stats.alpha, stats.beta, key)


def reward_std(stats):
  """Standard deviation of a prompt's reward, sqrt(m2 / (weight - 1)).

  Args: stats: PromptStats [N].

  Returns: f32[N]; 0 where weight <= 1 or the rewards were tied.

  Note:
    Decayed weights are read as a number of rollouts.

  >>> stats = init(1)
  >>> reward_std(stats.replace(weight=stats.weight + 3, m2=stats.m2 + 8))
  Array([2.], dtype=float32)
  """
  spread = numerics.safe_divide(stats.m2, jnp.maximum(stats.weight - 1, 0.0))
  some = spread > 0
  return jnp.where(some, jnp.sqrt(jnp.where(some, spread, 1.0)), 0.0)


# --- the running step


def tally_init(num_prompts):
  """No evidence yet.

  Args: num_prompts: P, static.

  Returns: Tally [P] of zeros.

  >>> tally_init(2).count
  Array([0, 0], dtype=int32)
  """
  return types.Tally(
    count=jnp.zeros((num_prompts,), jnp.int32),
    success=jnp.zeros((num_prompts,), jnp.float32),
    mean=jnp.zeros((num_prompts,), jnp.float32),
    m2=jnp.zeros((num_prompts,), jnp.float32),
  )


def tally_add(tally, reward, group, where):
  """A tally with a round's evidence added.

  Args:
    tally: Tally [P].
    reward: f32[R], any range; clipped to [0, 1] for `success` only. Unread
      where `where` is False.
    group: i32[R], prompt of the step; rows outside [0, P) are dropped.
    where: bool[R], rows that are evidence.

  Returns: Tally [P].

  >>> tally_add(tally_init(2), jnp.array([1.0, 0.0]), jnp.array([1, 1]),
  ...           jnp.array([True, True])).mean
  Array([0. , 0.5], dtype=float32)
  """
  rows = (group, tally.count.shape[0], where)
  count, mean, m2 = numerics.merge_moments(
    (tally.count.astype(jnp.float32), tally.mean, tally.m2),
    numerics.group_moments(reward, *rows),
  )
  success = numerics.group_sum(jnp.clip(reward, 0.0, 1.0), *rows)
  return types.Tally(
    count=count.astype(jnp.int32),
    success=tally.success + success,
    mean=mean,
    m2=m2,
  )


# --- private


def _fade(stats, kept, prior):
  """The beliefs with the share `kept` of the evidence behind them."""
  weight = kept * stats.weight
  some = weight > 0
  return stats.replace(
    alpha=prior[0] + kept * (stats.alpha - prior[0]),
    beta=prior[1] + kept * (stats.beta - prior[1]),
    weight=weight,
    mean=jnp.where(some, stats.mean, 0.0),
    m2=kept * stats.m2,
    length=jnp.where(some, stats.length, 0.0),
  )


def _check_prior(prior):
  if not all(x > 0 for x in prior):
    raise ValueError(
      f"prior={prior}: a Beta prior needs alpha > 0 and beta > 0, "
      "for example (1.0, 1.0)."
    )


def _check_factor(name, factor):
  """A traced factor (a schedule's) cannot be checked and is taken as it is."""
  if not isinstance(factor, jax.core.Tracer) and not 0 <= factor <= 1:
    raise ValueError(
      f"{name}={factor}: must lie in [0, 1]; 1 forgets nothing, "
      "0 forgets all that was seen before this step."
    )
