"""How do gradients become parameters? AdamW behind clipping and a guard."""

import jax
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
    clip, optax.adamw(rate, b1=b1, b2=b2, weight_decay=weight_decay)
  )
  return optax.apply_if_finite(inner, _FOREVER)


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
