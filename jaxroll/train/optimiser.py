"""How do gradients become parameters? AdamW or SGD behind a guard.

A method that finds more mixed groups has larger gradients, and at one learning
rate it takes larger steps. `unit_norm` gives every update the same length, so
that methods are compared by the direction they find.
"""

import jax
import jax.numpy as jnp
import optax

from jaxroll import types

# Steps with a non-finite gradient are skipped for as long as they last: the
# count is reported, and a run that only skips is for the user to stop.
_FOREVER = 2**30


def adamw(
  learning_rate: float,
  *,
  total_steps: int | None = None,
  warmup_steps: int = 0,
  final_scale: float = 1.0,
  clip_norm: float | None = 1.0,
  weight_decay: float = 0.0,
  b1: float = 0.9,
  b2: float = 0.95,
  update_norm: float | None = None,
) -> optax.GradientTransformation:
  """AdamW with a linear schedule, global-norm clipping, non-finite guard.

  Args:
    learning_rate: peak, > 0.
    total_steps: optimiser steps of the decay; None keeps the rate constant.
    warmup_steps: linear rise from 0, >= 0.
    final_scale: rate at the end over the peak, in [0, 1].
    clip_norm: global gradient norm, > 0, or None.
    weight_decay: decoupled, >= 0.
    b1, b2: moment decays, in [0, 1).
    update_norm: see `unit_norm`; None leaves updates as they are. With it the
      learning rate and its schedule have no effect.

  Returns:
    A transformation whose state counts skipped steps in `total_notfinite`.

  Raises:
    ValueError: where a number is out of its range.

  Reference:
    Loshchilov and Hutter 2019, arXiv:1711.05101.
  """
  if not learning_rate > 0:
    raise ValueError(f"learning_rate={learning_rate}: must be greater than 0")
  if clip_norm is not None and not clip_norm > 0:
    raise ValueError(f"clip_norm={clip_norm}: > 0, or None for no clipping")
  if not 0 <= final_scale <= 1:
    raise ValueError(f"final_scale={final_scale}: must be in [0, 1]")
  _check_update_norm(update_norm)
  for name, value in (
    ("warmup_steps", warmup_steps),
    ("weight_decay", weight_decay),
  ):
    if not value >= 0:
      raise ValueError(f"{name}={value}: must be at least 0")
  for name, value in (("b1", b1), ("b2", b2)):
    if not 0 <= value < 1:
      raise ValueError(f"{name}={value}: must be in [0, 1)")
  if total_steps is not None and total_steps <= warmup_steps:
    raise ValueError(
      f"total_steps={total_steps} must exceed warmup_steps={warmup_steps}"
    )
  rate = optax.constant_schedule(learning_rate)
  if total_steps is not None:
    rate = optax.linear_schedule(
      learning_rate, learning_rate * final_scale, total_steps - warmup_steps
    )
  if warmup_steps:
    rise = optax.linear_schedule(0.0, learning_rate, warmup_steps)
    rate = optax.join_schedules([rise, rate], [warmup_steps])
  clip = optax.identity()
  if clip_norm is not None:
    clip = optax.clip_by_global_norm(clip_norm)
  inner = optax.chain(
    clip,
    optax.adamw(rate, b1=b1, b2=b2, weight_decay=weight_decay),
    *([] if update_norm is None else [unit_norm(update_norm)]),
  )
  return optax.apply_if_finite(inner, _FOREVER)


def sgd(
  learning_rate: float, *, update_norm: float | None = None
) -> optax.GradientTransformation:
  """Steps against the gradient, behind the guard against non-finite ones.

    update = -learning_rate * gradient

  Args:
    learning_rate: > 0.
    update_norm: see `unit_norm`; None leaves updates as they are. With it the
      learning rate has no effect.

  Returns:
    A transformation whose state counts skipped steps in `total_notfinite`.

  Raises:
    ValueError: where a number is out of its range.

  Example:
    >>> optimiser = sgd(0.1)
    >>> grads = {"w": jnp.array([3.0, 4.0])}
    >>> optimiser.update(grads, optimiser.init(grads))[0]["w"]
    Array([-0.3, -0.4], dtype=float32)
  """
  if not learning_rate > 0:
    raise ValueError(f"learning_rate={learning_rate}: must be greater than 0")
  _check_update_norm(update_norm)
  inner = optax.chain(
    optax.sgd(learning_rate),
    *([] if update_norm is None else [unit_norm(update_norm)]),
  )
  return optax.apply_if_finite(inner, _FOREVER)


def unit_norm(norm: float = 1.0) -> optax.GradientTransformation:
  """Every update of one length: `norm * update / ||update||`.

  The length is the global one, over all parameters; an update of 0 stays 0.
  Put it last in a chain: what stands before it decides the direction only.

  Args:
    norm: length of every update, > 0.

  Returns:
    A transformation without state.

  Raises:
    ValueError: norm is not above 0.

  Note:
    After a transformation with momentum a batch without any signal still moves
    the parameters, by the full length along the momentum.

  Example:
    >>> optimiser = unit_norm(10.0)
    >>> grads = {"w": jnp.array([3.0, 4.0])}
    >>> optimiser.update(grads, optimiser.init(grads))[0]["w"]
    Array([6., 8.], dtype=float32)
  """
  if not 0 < norm < float("inf"):
    raise ValueError(f"norm={norm}: must be finite and greater than 0")

  def rescale(updates, params=None):
    del params
    # The largest entry goes first: squares of tiny updates would vanish.
    largest = jax.tree.reduce(
      jnp.maximum, jax.tree.map(lambda x: jnp.max(jnp.abs(x)), updates)
    )
    some = largest > 0
    units = jax.tree.map(lambda x: x / jnp.where(some, largest, 1.0), updates)
    length = optax.global_norm(units)
    scale = jnp.where(some, norm / jnp.where(some, length, 1.0), 0.0)
    return jax.tree.map(lambda x: x * scale, units)

  return optax.stateless(rescale)


def _check_update_norm(update_norm):
  if update_norm is not None and not 0 < update_norm < float("inf"):
    raise ValueError(
      f"update_norm={update_norm}: finite and > 0, or None for no rescaling"
    )


def apply_gradients(
  optimiser: optax.GradientTransformation, learner: types.Learner, grads
) -> types.Learner:
  """One optimiser step: a new `Learner`."""
  # optax mixes integer counts with floats, which strict promotion forbids.
  with jax.numpy_dtype_promotion("standard"):
    updates, opt_state = optimiser.update(
      grads, learner.opt_state, learner.params
    )
    params = optax.apply_updates(learner.params, updates)
  return types.Learner(params=params, opt_state=opt_state)
