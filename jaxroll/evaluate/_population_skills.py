"""What does an allocation find where skills must be learned one by one?

  P(reward 1 | prompt i of skill k) = sigmoid(s w_k . x_i + d_i)

Every skill has parameters of its own, so that no direction raises all prompts.
Inside a skill d falls in equal steps: its easy prompts are solved first and
open the others. Skills start at different levels, the hardest near 0.
"""

import jax.numpy as jnp
import numpy as np

from jaxroll.evaluate._population_pair import Population, check_sizes, pair


def skills(
  num_prompts: int = 1024,
  skills: int = 8,
  *,
  features: int = 8,
  shared: float = 0.5,
  sharpness: float = 4.0,
  easiest: float = 1.0,
  hardest: float = -7.0,
  spread: float = 6.0,
  num_eval: int = 128,
  seed: int = 0,
) -> Population:
  """A logistic policy with separate parameters for every skill.

  `P(reward 1 | prompt i of skill k) = sigmoid(sharpness w_k . x_i + d_i)`

  Args:
    num_prompts: training prompts, >= skills; dealt to the skills in turn.
    skills: K >= 1.
    features: coordinates of a skill, >= 2: the first is common to the skill,
      the others are the prompt's own.
    shared: share in (0, 1] of |x|^2 that is common to the skill: how far one
      prompt's lesson carries to the others.
    sharpness: s > 0, steepness in w . x.
    easiest, hardest: mean d of the first and of the last skill; the others
      lie between them in equal steps.
    spread: >= 0, d of a skill's easiest prompt minus d of its hardest.
    num_eval: held-out prompts, >= 0.
    seed: of the features.

  Returns:
    A `Population` with parameters {"w": f32[skills, features]}; the source of
    a prompt is its skill.

  Raises:
    ValueError: where a number is out of range.

  Example:
    >>> toy = skills(16, 2, num_eval=4)
    >>> start = toy.solve_rate({"w": jnp.zeros((2, 8))})
    >>> bool(start[0] > 0.9), bool(start[-1] < 0.02)
    (True, True)
  """
  check_sizes(num_prompts, num_eval, skills=skills)
  if features < 2 or num_prompts < skills:
    raise ValueError(
      f"features={features} must be at least 2 and num_prompts={num_prompts} "
      f"at least skills={skills}"
    )
  if not 0 < shared <= 1 or not sharpness > 0 or spread < 0:
    raise ValueError(
      f"shared={shared} must be in (0, 1], sharpness={sharpness} > 0 and "
      f"spread={spread} >= 0"
    )
  rng = np.random.default_rng(seed)
  total = num_prompts + num_eval
  source = np.arange(total) % skills
  own = rng.normal(size=(total, features - 1)) / np.sqrt(features - 1)
  common = np.full((total, 1), np.sqrt(shared))
  x = np.concatenate([common, np.sqrt(1 - shared) * own], axis=1)
  x = x.astype(np.float32)
  level = np.linspace(easiest, hardest, skills)[source]
  # Training and held-out prompts each run through the whole of a skill.
  place = np.concatenate(
    [_places(num_prompts, skills), _places(num_eval, skills)]
  )
  d = (level + spread * (0.5 - place)).astype(np.float32)
  blocks = np.zeros((total, skills, features), np.float32)
  blocks[np.arange(total), source] = x

  def logit(params, ids):
    w = params["w"][jnp.asarray(source, jnp.int32)[ids]]
    along = jnp.sum(jnp.asarray(x)[ids] * w, axis=-1)
    return sharpness * along + jnp.asarray(d)[ids]

  return pair(
    "skills",
    init=lambda: {"w": jnp.zeros((skills, features), jnp.float32)},
    logit=logit,
    start=d,
    source=source,
    feature=blocks.reshape(total, -1),
    num_train=num_prompts,
  )


def _places(number, skills):
  """Place of each prompt in its skill, in (0, 1), easiest first."""
  row = np.arange(number) // skills
  return (row + 0.5) / max(1, -(-number // skills))
