r"""Which arm is pulled next, given what each arm paid and how often?

Arms may be prompts, sources, checkpoints or sampling policies. State is two
sums by arm, total_a of the rewards and n_a of the pulls, both forgotten at a
rate gamma where the rewards drift:

  total <- gamma total + r [a pulled],  n <- gamma n + [a pulled]

Rules: epsilon-greedy and UCB1 (Auer, Cesa-Bianchi & Fischer 2002, "Finite-time
analysis of the multiarmed bandit problem"), Thompson sampling with its
discounted form (Raj & Kalyani 2017, arXiv:1707.09727), and a roll-back with a
margin; compared under drift in arXiv:2503.22595.
"""

import jax.numpy as jnp

from jaxroll import beta_draws, numerics

# The score of an arm never pulled: above any other, and finite.
FIRST = float(jnp.finfo(jnp.float32).max)


def means(total, pulls):
  """Mean reward of each arm, 0 where it was not pulled.

  Args: total, pulls: f32[A].

  Returns: f32[A].

  >>> means(jnp.array([3.0, 0.0]), jnp.array([4.0, 0.0])).tolist()
  [0.75, 0.0]
  """
  return numerics.safe_divide(total, pulls)


def ucb_scores(total, pulls, *, scale=2**0.5):
  """UCB1: mean_a + scale sqrt(log(sum n) / n_a).

  Args:
    total, pulls: f32[A]; pulls >= 0 and may be fractions (discounted).
    scale: width of the bonus, >= 0.

  Returns:
    f32[A]; `FIRST` for an arm that was not pulled.

  >>> scores = ucb_scores(jnp.array([3.0, 8.0]), jnp.array([5.0, 10.0]))
  >>> [round(float(x), 5) for x in scores]
  [1.64078, 1.53594]
  """
  rounds = jnp.maximum(jnp.sum(pulls), 1.0)
  bonus = scale * jnp.sqrt(numerics.safe_divide(jnp.log(rounds), pulls))
  return jnp.where(pulls > 0, means(total, pulls) + bonus, FIRST)


def epsilon_greedy(total, pulls, explore, choice, *, epsilon=0.1):
  """A uniform arm with probability epsilon, else the best so far.

  Args:
    total, pulls: f32[A].
    explore, choice: f32[], uniform in [0, 1): whether to explore, and where.
    epsilon: in [0, 1].

  Returns:
    i32[], an arm; ties go to the lower index.

  >>> int(epsilon_greedy(jnp.array([3.0, 8.0]), jnp.array([5.0, 10.0]),
  ...                    jnp.float32(0.05), jnp.float32(0.5)))
  1
  """
  arms = total.shape[0]
  random = jnp.minimum(jnp.floor(choice * arms), arms - 1).astype(jnp.int32)
  best = jnp.argmax(means(total, pulls)).astype(jnp.int32)
  return jnp.where(explore < epsilon, random, best)


def thompson_scores(total, pulls, key):
  """One draw of each arm's Beta(1 + total, 1 + n - total).

  Args:
    total, pulls: f32[A], of rewards in [0, 1].
    key: PRNG key.

  Returns:
    f32[A] in [0, 1].

  >>> thompson_scores(jnp.array([3.0]), jnp.array([5.0]),
  ...                 jax.random.key(0)).shape
  (1,)
  """
  # Rounding of discounted sums may leave a total just above its pulls.
  failures = jnp.maximum(pulls - total, 0.0)
  return beta_draws.draw(1 + total, 1 + failures, key)


def discount(total, pulls, reward, count, *, gamma=0.99):
  """Both sums after one more observation: old ones of ALL arms shrink.

  Args:
    total, pulls: f32[A].
    reward: f32[A], sum of the new rewards of each arm, 0 where none.
    count: f32[A], number of new rewards of each arm.
    gamma: kept of the old sums, in [0, 1].

  Returns:
    total, pulls: f32[A] each.

  >>> new = discount(jnp.array([3.0, 8.0]), jnp.array([5.0, 10.0]),
  ...                jnp.array([0.0, 0.0]), jnp.array([0.0, 1.0]), gamma=0.9)
  >>> [[round(float(x), 4) for x in sums] for sums in new]
  [[2.7, 7.2], [4.5, 10.0]]
  """
  return gamma * total + reward, gamma * pulls + count


def rollback(recent, live, *, margin=0.02):
  """The arm to serve: the best recent one if it beats the live one clearly.

  Args:
    recent: f32[A], mean reward of each arm in a recent window.
    live: i32[], the arm that serves.
    margin: the least lead that moves it, >= 0.

  Returns:
    i32[], an arm; ties go to the lower index.

  >>> int(rollback(jnp.array([0.9, 0.8]), 1, margin=0.05))
  0
  """
  best = jnp.argmax(recent).astype(jnp.int32)
  ahead = recent[best] > recent[live] + margin
  return jnp.where(ahead, best, jnp.asarray(live, jnp.int32))
