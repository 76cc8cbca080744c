"""From a config to the functions of a run. Strings end here."""

import dataclasses
import functools
import inspect
import math

import jax
import jax.numpy as jnp
import optax
from ml_collections import ConfigDict

from experiments import adapters
from jaxroll import (
  environments,
  evaluate,
  metrics,
  models,
  objective,
  parallel,
  recipe,
  rollout,
  train,
  types,
)

# The least that a field may be.
_LEAST = {
  "steps": 1,
  "prompts": 1,
  "rollouts": 1,
  "slots": 1,
  "micro_rows": 1,
  "epochs": 1,
  "minibatches": 1,
  "eval_every": 1,
  "eval_prompts": 2,
  "eval_k": 1,
  "checkpoint_every": 1,
  "checkpoints_kept": 1,
  "warmup_steps": 0,
  "warm_start.steps": 0,
  "warm_start.rows": 1,
}


def pretrained(
  config: ConfigDict,
  on: jax.sharding.Mesh | None = None,
  dtype: str = "float32",
) -> models.Pretrained | None:
  """The model that `config.pretrained` names, None for "".

  Args:
    config: the model's fields.
    on: a mesh over whose devices the weights are spread while they are read,
      so that none has all of them; None reads numpy arrays.
    dtype: of the weights.

  Raises:
    ValueError: where there is none, or it cannot be read.
  """
  if not config.get("pretrained"):
    return None
  spread = on and functools.partial(parallel.shardings, mesh=on)
  try:
    return models.load(config.pretrained, dtype=dtype, shardings=spread)
  except (FileNotFoundError, ImportError, RuntimeError) as error:
    raise ValueError(f"model.pretrained: {error}") from error


def task(config: ConfigDict, of: models.Pretrained | None = None) -> types.Task:
  """The task that `config.name` names, with the other fields as arguments.

  Args:
    config: `name` is a function of environments; what follows a colon is its
      first argument: "reasoning_gym:chain_sum", "questions:sums.jsonl".
    of: the model whose tokenizer a task of text takes.

  Returns:
    types.Task.

  Raises:
    ValueError: where there is no such task, or it does not take the fields.
  """
  arguments = config.to_dict()
  name, _, first = arguments.pop("name").partition(":")
  if name not in environments.__all__:
    raise ValueError(
      f"task.name={config.name!r}: must be one of {environments.__all__}"
    )
  made = getattr(environments, name)
  names = list(inspect.signature(made).parameters)
  if "tokenizer" in names:
    if of is None:
      raise ValueError(
        f"task.name={config.name!r} is a task of text: set model.pretrained, "
        'for example to "smollm2-135m-instruct"'
      )
    arguments["tokenizer"] = of.tokenizer
  elif of is not None:
    raise ValueError(
      f"task.name={config.name!r} has a vocabulary of its own, which no "
      'pretrained model knows: choose a task of text, or model.pretrained=""'
    )
  if first:
    if names[0] in arguments:
      raise ValueError(
        f"task.name={config.name!r} and task.{names[0]} are the same argument: "
        "leave one out"
      )
    arguments[names[0]] = first
  try:
    return made(**arguments)
  except (FileNotFoundError, ImportError) as error:
    raise ValueError(f"task.{name}: {error}") from error
  except TypeError as error:
    raise ValueError(
      f"task.{name} does not take these fields: {error}"
    ) from error


def policy(
  config: ConfigDict, vocab_size: int, of: models.Pretrained | None = None
) -> types.Policy:
  """The transformer of `network`."""
  return models.policy(network(config, vocab_size, of))


def network(
  config: ConfigDict, vocab_size: int, of: models.Pretrained | None = None
) -> models.Config:
  """The shape that `config.model` describes, or the pretrained model's.

  Of a pretrained one `config` gives what is not in its weights: `remat` and
  `dtype`.
  """
  fields = config.to_dict()
  fields.pop("pretrained", None)
  if of is None:
    return models.Config(vocab_size=vocab_size, **fields)
  free = {name: fields[name] for name in ("remat", "dtype") if name in fields}
  return dataclasses.replace(of.config, **free)


def check(config: ConfigDict) -> None:
  """Refuses numbers that no run can have.

  Raises:
    ValueError: naming each with its value.
  """
  fields = metrics.flatten(config.to_dict())
  wrong = [
    f"{name}={fields[name]} must be at least {least}"
    for name, least in _LEAST.items()
    if fields[name] < least
  ]
  if wrong:
    raise ValueError(f"{', '.join(wrong)}: raise it")
  for name in ("kl_coefficient", "learning_rate", "temperature"):
    if not math.isfinite(config[name]):
      raise ValueError(f"{name}={config[name]}: must be finite")
  if not config.temperature:
    raise ValueError(
      "temperature=0: a prompt's rows would all be the same, and none could "
      "teach anything: must be above 0 in training"
    )
  if config.minibatches > config.rollouts:
    raise ValueError(
      f"minibatches={config.minibatches} exceed rollouts={config.rollouts}: "
      "lower minibatches"
    )


def sizes(config: ConfigDict, of: types.Task) -> types.Sizes:
  """The static sizes of a step."""
  source = of.grade if of.source is None else of.source
  return types.Sizes(
    num_ids=len(of.grade),
    prompts=config.prompts,
    rows=config.rollouts,
    prompt_length=of.prompt_length,
    response_length=of.response_length,
    num_sources=int(max(source)) + 1,
    num_features=train.num_features(of),
  )


def rules(config: ConfigDict, run_sizes: types.Sizes) -> recipe.Recipe:
  """The recipe with the config's replacements; a chain is comma-separated."""
  made = recipe.resolve(f"recipes.{config.recipe}")(run_sizes)
  made = made._replace(epochs=config.epochs, minibatches=config.minibatches)
  for family in ("select", "advantage", "trust"):
    if config[family]:
      names = config[family].split(",")
      chain = tuple(_function(name.strip(), family) for name in names)
      made = made._replace(**{family: chain})
  first, *others = made.losses
  if config.objective:
    first = first._replace(fn=_function(config.objective, "objective"))
  if config.aggregate:
    aggregate = recipe.resolve(f"objective.aggregate.{config.aggregate}")
    if config.aggregate == "constant_length":
      aggregate = functools.partial(aggregate, limit=run_sizes.response_length)
    first = first._replace(aggregate=aggregate)
  if config.kl_coefficient:
    kl = types.Loss("kl", objective.kl, config.kl_coefficient, first.aggregate)
    others, made = [*others, kl], made._replace(reference=True)
  made = made._replace(losses=(first, *others))
  recipe.check(made)
  cut = config.top_k or config.top_p != 1
  if cut and "behaviour_logp" in recipe.needs(made):
    raise ValueError(
      f"top_k={config.top_k}, top_p={config.top_p}: the sampler is "
      "then on a smaller support than the trainer's, which a correction in "
      f"trust={config.trust!r} would take for a mismatch: use top_k=0, top_p=1"
    )
  return made


def _function(name: str, family: str):
  """The function that a config's field of a family names."""
  if name.rpartition(".")[0] != family:
    raise ValueError(f"{family}={name!r}: write {family}.function")
  function = recipe.resolve(name)
  # A method with a memory or numbers of its own is made by a factory, which
  # takes no column.
  return function if recipe.columns(function) else function()


def optimiser(config: ConfigDict) -> optax.GradientTransformation:
  """The policy's optimiser; the rate decays over `decay_steps`, if any."""
  return train.adamw(
    config.learning_rate,
    warmup_steps=config.warmup_steps,
    total_steps=config.decay_steps or None,
    final_scale=config.final_scale,
    clip_norm=config.clip_norm,
  )


def first_state(
  made, lm, optimiser, run_sizes, key, of, *, adapted: bool = False
) -> types.TrainState:
  """The state before the first step, from drawn or pretrained parameters.

  Args:
    made: the recipe. lm: the policy. optimiser: of its learner.
    run_sizes: types.Sizes. key: the run's.
    of: models.Pretrained or None.
    adapted: whether `lm` is adapters on it, which is then the frozen base.

  Returns:
    types.TrainState; weights that lie on a mesh stay there, with their
    optimiser's state.
  """
  init = functools.partial(train.init_state, made, lm, optimiser, run_sizes)
  if of is None:
    return jax.jit(init)(key)
  params = jax.tree.map(jnp.asarray, of.params)
  if adapted:
    return adapters.with_base(jax.jit(init)(key), params)
  # Not jitted: weights that a program closes over are compiled into it.
  return init(key, params=params)


def settings(config: ConfigDict, of: types.Task) -> train.Settings:
  """What may change without compiling: sampler, stops, limit."""
  return train.Settings(
    rollout.sampler(
      config.temperature,
      config.top_k or None,
      config.top_p if config.top_p != 1 else None,
      config.noise,
    ),
    rollout.stops(of.stop_tokens),
    jnp.int32(of.response_length),
  )


def mesh(config: ConfigDict) -> jax.sharding.Mesh | None:
  """The mesh that trains, or None where one device does everything.

  Raises:
    ValueError: for sizes or rollout devices that there are not.
  """
  apart, number = config.get("rollout_devices", 0), jax.device_count()
  if apart and jax.process_count() > 1:
    raise ValueError(
      f"mesh.rollout_devices={apart} with {jax.process_count()} processes: "
      "rollouts have devices of their own within one process only; set it to 0"
    )
  if apart and not 0 < apart < number:
    raise ValueError(
      f"mesh.rollout_devices={apart}: must be in [1, {number - 1}] of {number} "
      "devices, or 0 where all of them do everything"
    )
  made = parallel.make_mesh(
    config.data,
    config.fsdp,
    config.tensor,
    expert=config.get("expert", 1),
    devices=parallel.split_devices(apart)[1] if apart else None,
  )
  return made if apart or made.size > 1 else None


_WARM_START = 2**31 - 2  # what its random numbers are for


def warm_start(config: ConfigDict, of: types.Task, lm, made: recipe.Recipe):
  """(state) -> state, loss f32[steps] or None: the supervised steps, if any.

  They train what the RL steps train: with `config.lora` adapters on `lm`, the
  whole model. The RL optimiser starts anew. The reference is the policy that
  they leave.
  """
  steps = config.warm_start.steps
  if not steps:
    return lambda state: (state, None)
  optimiser = train.adamw(
    config.warm_start.learning_rate,
    total_steps=steps,
    warmup_steps=min(20, steps - 1),
    final_scale=0.1,
  )

  def supervised(frozen):
    return train.warm_start(
      adapters.policy(config, lm, frozen),
      of,
      optimiser,
      rows=config.warm_start.rows,
      steps=steps,
      wrong=config.warm_start.wrong,
    )

  supervised(None)  # what cannot run is refused now
  # The base is an argument: closed over it would be part of the program.
  jitted = jax.jit(lambda base, *arguments: supervised(base)(*arguments))

  def run(state):
    policy = state.learners["policy"]
    learner, loss = jitted(
      state.frozen.get("base"),
      policy.replace(opt_state=optimiser.init(policy.params)),
      of.data,
      jnp.asarray(of.train_pool, jnp.int32),
      jax.random.fold_in(state.key, _WARM_START),
    )
    policy = policy.replace(params=learner.params)
    frozen = dict(state.frozen)
    if made.reference:
      frozen["reference"] = jax.tree.map(jnp.copy, learner.params)
    state = state.replace(
      learners=state.learners | {"policy": policy}, frozen=frozen
    )
    return state, loss

  return run


def evaluation(config: ConfigDict, of: types.Task, lm, on):
  """(params, data, settings, key) -> metrics of held-out prompts, samples."""
  pool = of.eval_pool
  number = min(config.eval_prompts, len(pool))
  if number < 2:
    raise ValueError(
      f"the task has {len(pool)} prompts to evaluate and a standard error "
      "needs 2: raise task.eval_per_grade"
    )
  # Evenly through the pool, which is ordered by grade.
  ids = pool[[place * len(pool) // number for place in range(number)]]
  sample = evaluate.held_out(
    lm,
    of,
    ids,
    k=config.eval_k,
    slots=4 * config.slots,
    max_length=of.response_length,
    mesh=on,
  )
  estimate_once = jax.jit(functools.partial(evaluate.pass_at_k, k=1))
  estimate_all = jax.jit(functools.partial(evaluate.pass_at_k, k=config.eval_k))

  def run(params, data, settings, key):
    samples = sample(params, data, settings.sampler, settings.stops, key)
    once = estimate_once(samples.correct, where=samples.scored)
    some = estimate_all(samples.correct, where=samples.scored)
    values = {
      "eval/pass@1": once.mean,
      "eval/pass@1_se": once.standard_error,
      "eval/pass@k": some.mean,
      "eval/pass@k_se": some.standard_error,
      "eval_k": config.eval_k,
    }
    return jax.device_get(values), samples

  return run
