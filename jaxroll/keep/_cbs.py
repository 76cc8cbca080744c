"""Which rollouts were worth a gradient? A small net learns it from the steps.

Rollouts are the arms of a contextual bandit. Each is described by a context
x_i in R^10; a net scores it, and a group's k best rows are trained on:

  keep_i  iff  f(x_i) is among the k largest of its group

What a step's choice was worth shows a step later, and all that was chosen
shares it. With V_t the mean reward and E_t the mean entropy of step t's fresh
rows, before the choice,

  R_t = (V_{t+1} - V_t) - w_e 1[E_t > e_min] (E_{t+1} - E_t)
  minimise  (mean of f(x_i) over the chosen rows - R_t)^2

The entropy term keeps the net from preferring noisy rollouts of high entropy.

Paper: "Contextual Rollout Bandits" (CBS), 2026, arXiv:2602.08499.
"""

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax

from jaxroll import numerics
from jaxroll.keep._rows import by_row, place
from jaxroll.types import Method, Sizes

FEATURES = 10


class State(NamedTuple):
  """What the bandit carries; M choices remembered, C rows a choice at most.

  Attributes:
    params: of the net. opt_state: of its optimiser.
    features: f32[M, C, 10], chosen: bool[M, C], reward: f32[M], the
      remembered choices; count: i32[], how many there have been.
    last_features: f32[C, 10], last_chosen: bool[C], the choice whose reward
      is still to come; value, entropy: f32[], of the step it was made in.
    start: f32[], entropy of the first step; started: bool[].
  """

  params: Any
  opt_state: Any
  features: chex.Array
  chosen: chex.Array
  reward: chex.Array
  count: chex.Array
  last_features: chex.Array
  last_chosen: chex.Array
  value: chex.Array
  entropy: chex.Array
  start: chex.Array
  started: chex.Array


def cbs(
  *,
  k: int = 4,
  hidden: int = 64,
  learning_rate: float = 1e-3,
  steps: int = 4,
  memory: int = 8,
  entropy_weight: float = 1.0,
  entropy_floor: float | None = None,
  explore: float = 0.2,
  explore_final: float = 0.02,
  explore_steps: int = 1000,
) -> Method:
  """A contextual bandit over the rollouts of each group.

  Args:
    k: rows kept of a group, >= 1; all of a group that has no more.
    hidden: width of the net's two hidden layers, >= 1.
    learning_rate: of the net's Adam, > 0.
    steps: gradient steps of the net when a reward arrives, >= 1.
    memory: M, choices that the net is fitted to, >= 1.
    entropy_weight: w_e, >= 0.
    entropy_floor: e_min, nats a token; None takes the first step's entropy.
    explore, explore_final: chance that a step chooses at random instead, at
      the start and after `explore_steps` >= 1 steps; linear between, in
      [0, 1].

  Returns:
    A `Method` for `keep_loss`; its output is bool[B], min(k, valid rows) of
    every group, ties to the lower index.

  Raises:
    ValueError: where a number is out of its range.

  Note:
    Belongs in `keep_loss`: the advantages are those of the whole group, so
    that no baseline moves with the choice. V and E are of this step's rows,
    the ones of `valid`; a step without any teaches the net nothing.

    Derived here, as the source does not state it: the loss of the net, its
    memory and optimiser, the chance of random choices, and two features, mean
    and standard deviation of the group's rewards. The paper also chooses from
    a buffer of earlier rollouts, and describes a row by its age, its uses and
    the share of its clipped tokens. Without a buffer their places are taken by
    the round of the row (-1 if it was carried over), the number of its group's
    rows, and the mean log-prob of its tokens.

  Example:
    >>> method = cbs(k=2)
    >>> state = method.init(Sizes(9, 2, 8, 4, 4), key=jax.random.key(0))
    >>> state.last_features.shape, int(state.count)
    ((4, 10), 0)

  Reference:
    Contextual Rollout Bandits 2026, arXiv:2602.08499.
  """
  for name, number in (
    ("k", k),
    ("hidden", hidden),
    ("steps", steps),
    ("memory", memory),
    ("explore_steps", explore_steps),
  ):
    if number < 1:
      raise ValueError(f"cbs: {name}={number} must be >= 1")
  if not learning_rate > 0:
    raise ValueError(f"cbs: learning_rate={learning_rate} must be > 0")
  if not entropy_weight >= 0:
    raise ValueError(
      f"cbs: entropy_weight={entropy_weight} must be >= 0: 0 for no penalty"
    )
  for name, chance in (("explore", explore), ("explore_final", explore_final)):
    if not 0 <= chance <= 1:
      raise ValueError(f"cbs: {name}={chance} must be in [0, 1]")
  optimiser = optax.adam(learning_rate)

  def init(sizes: Sizes, *, key) -> State:
    params = _init_net(key, (FEATURES, hidden, hidden, 1))
    rows = k * sizes.prompts
    return State(
      params=params,
      opt_state=optimiser.init(params),
      features=jnp.zeros((memory, rows, FEATURES), jnp.float32),
      chosen=jnp.zeros((memory, rows), bool),
      reward=jnp.zeros((memory,), jnp.float32),
      count=jnp.int32(0),
      last_features=jnp.zeros((rows, FEATURES), jnp.float32),
      last_chosen=jnp.zeros((rows,), bool),
      value=jnp.float32(0),
      entropy=jnp.float32(0),
      start=jnp.float32(0),
      started=jnp.bool_(False),
    )

  def apply(
    state: State,
    reward,
    adv,
    length,
    stopped,
    entropy,
    behaviour_logp,
    round,
    group,
    index,
    mask,
    *,
    num_groups,
    valid,
    step,
    key,
  ):
    mask = mask & valid[:, None]
    fresh = valid & (round >= 0)
    some = jnp.any(fresh)
    value = numerics.masked_mean(reward, fresh)
    mean_entropy = numerics.masked_mean(entropy, mask & fresh[:, None])
    start = jnp.where(state.started, state.start, mean_entropy)
    earned = arm_reward(
      state.value,
      value,
      state.entropy,
      mean_entropy,
      entropy_weight,
      start if entropy_floor is None else entropy_floor,
    )
    known = some & jnp.any(state.last_chosen)
    state = jax.lax.cond(
      known,
      lambda s: _learn(_remember(s, earned), optimiser, steps),
      lambda s: s,
      state,
    )

    x = describe(
      (reward, by_row(adv, mask), length, ~stopped)
      + (by_row(entropy, mask), by_row(behaviour_logp, mask), round),
      group,
      num_groups,
      valid,
    )
    coin, draw = jax.random.split(key)
    gone = jnp.minimum(step.astype(jnp.float32) / explore_steps, 1.0)
    chance = explore + (explore_final - explore) * gone
    score = jnp.where(
      jax.random.bernoulli(coin, chance),
      jax.random.uniform(draw, group.shape),
      _scores(state.params, x),
    )
    kept = valid & (place(group, num_groups, valid, score, -index) < k)
    features, chosen = _pack(x, kept, state.last_chosen.shape[0])
    return kept, state._replace(
      last_features=features,
      last_chosen=chosen & some,
      value=value,
      entropy=mean_entropy,
      start=jnp.where(some, start, state.start),
      started=state.started | some,
    )

  def update(state: State) -> State:
    return state  # The reward of a choice comes with the next step's rows.

  return Method(init, apply, update)


def arm_reward(value, next_value, entropy, next_entropy, weight, floor):
  """What a choice earned: the rise of reward less that of entropy.

  `R = (V' - V) - w_e 1[E > e_min] (E' - E)`

  Args:
    value, next_value: f32, mean reward of the step and of the next one.
    entropy, next_entropy: f32, mean entropy of them, nats a token.
    weight: w_e. floor: e_min; an entropy equal to it is not penalised.

  Returns:
    f32. A fall of entropy from above the floor is a bonus.

  Example:
    >>> round(float(arm_reward(0.42, 0.47, 0.6, 0.66, 0.5, 0.5)), 6)
    0.02

  Reference:
    Contextual Rollout Bandits 2026, arXiv:2602.08499.
  """
  rise = next_entropy - entropy
  penalty = jnp.where(entropy > floor, weight * rise, 0.0)
  return next_value - value - penalty


def subset_loss(score, chosen, reward):
  """Squared error of the chosen rows' mean score; 0 where none is chosen.

  Args:
    score: f32[C]. chosen: bool[C]. reward: f32[].

  Returns:
    f32[].

  Example:
    >>> score, chosen = jnp.array([1.0, 3.0, 9.0]), jnp.array([1, 1, 0], bool)
    >>> float(subset_loss(score, chosen, 1.5))
    0.25

  Reference:
    Contextual Rollout Bandits 2026, arXiv:2602.08499; the form is derived.
  """
  error = numerics.masked_mean(score, chosen) - reward
  return jnp.where(jnp.any(chosen), error**2, 0.0)


def describe(columns, group, num_groups, valid):
  """The rows' contexts, standardised over the step.

  Args:
    columns: seven columns [B]: reward, advantage, length, truncated, entropy,
      log-prob, round; three more are made of the rewards here.
    group: i32[B]. num_groups: P. valid: bool[B], rows that are described.

  Returns:
    f32[B, 10], of mean 0 and variance 1 over the valid rows; 0 for a column
    that is constant, for what is not finite and for rows that are not valid.

  Example:
    >>> columns = (jnp.array([1.0, 0.0]),) * 7
    >>> group, valid = jnp.zeros(2, int), jnp.ones(2, bool)
    >>> describe(columns, group, 1, valid)[:, 0].tolist()
    [1.0, -1.0]
  """
  count, mean, _ = numerics.group_moments(columns[0], group, num_groups, valid)
  std = numerics.group_std(columns[0], group, num_groups, valid)
  columns = (*columns, mean[group], std[group], count[group])
  x = jnp.stack([c.astype(jnp.float32) for c in columns])
  use = valid[None, :] & jnp.isfinite(x)
  centred = x - numerics.masked_mean(x, use, axis=1)[:, None]
  variance = numerics.masked_mean(jnp.square(centred), use, axis=1)
  # Rounding of a constant column's mean must not be blown up to 1.
  flat = variance <= 1e-10 * numerics.masked_mean(jnp.square(x), use, axis=1)
  scale = jnp.where(flat, 0.0, jax.lax.rsqrt(jnp.where(flat, 1.0, variance)))
  return jnp.where(use, centred * scale[:, None], 0.0).T


def _remember(state: State, earned) -> State:
  """The last choice and its reward in place of the oldest."""
  at = state.count % state.reward.shape[0]
  return state._replace(
    features=state.features.at[at].set(state.last_features),
    chosen=state.chosen.at[at].set(state.last_chosen),
    reward=state.reward.at[at].set(earned),
    count=state.count + 1,
  )


def _learn(state: State, optimiser, steps: int) -> State:
  """The net after some gradient steps on the choices remembered."""
  filled = jnp.arange(state.reward.shape[0]) < state.count

  def loss(params):
    scores = jax.vmap(_scores, (None, 0))(params, state.features)
    each = jax.vmap(subset_loss)(scores, state.chosen, state.reward)
    return numerics.masked_mean(each, filled)

  def descend(_, carry):
    params, opt_state = carry
    grads = jax.grad(loss)(params)
    # optax mixes integer counts with floats, which strict promotion forbids.
    with jax.numpy_dtype_promotion("standard"):
      updates, opt_state = optimiser.update(grads, opt_state, params)
      return optax.apply_updates(params, updates), opt_state

  params, opt_state = jax.lax.fori_loop(
    0, steps, descend, (state.params, state.opt_state)
  )
  return state._replace(params=params, opt_state=opt_state)


def _init_net(key, widths):
  layers = {}
  initial = jax.nn.initializers.lecun_normal()
  for number, shape in enumerate(zip(widths[:-1], widths[1:])):
    kernel = initial(jax.random.fold_in(key, number), shape, jnp.float32)
    bias = jnp.zeros(shape[1:], jnp.float32)
    layers[f"layer_{number}"] = {"kernel": kernel, "bias": bias}
  return layers


def _scores(params, x):
  """f(x) for rows x f32[B, 10] -> f32[B]."""
  layers = list(params.values())
  for layer in layers[:-1]:
    x = jax.nn.gelu(x @ layer["kernel"] + layer["bias"][None, :])
  return (x @ layers[-1]["kernel"] + layers[-1]["bias"][None, :])[:, 0]


def _pack(x, kept, rows):
  """The kept rows first, cut or filled up to `rows`."""
  order = jnp.argsort(~kept, stable=True)[:rows]
  missing = rows - order.shape[0]
  features = jnp.pad(x[order], ((0, missing), (0, 0)))
  return features, jnp.pad(kept[order], (0, missing))
