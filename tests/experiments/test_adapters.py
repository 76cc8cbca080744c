"""Adapters from the config to the folder that Transformers loads."""

import json
import pathlib
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import adapters, build, cli, export, train
from experiments import evaluate as binary
from experiments.configs import quickstart
from experiments.evaluation import subjects
from jaxroll import metrics, models, parallel, recipes
from tests.experiments import tiny_text


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  return tiny_text.export(tmp_path_factory.mktemp("hf") / "tiny")


def config(folder, **changes):
  made = tiny_text.fill(quickstart.get_config(), folder, recipe="uniform")
  made.lora.rank = 4
  made.mesh.data, made.mesh.fsdp, made.mesh.tensor = 2, 2, 2
  made.rollouts, made.slots = 32, 32
  made.learning_rate, made.warmup_steps, made.decay_steps = 0.01, 0, 0
  made.kl_coefficient = 0.1
  # Enough for answers that are numbers, so that some are right.
  made.warm_start.steps, made.warm_start.rows = 100, 16
  made.warm_start.learning_rate, made.warm_start.wrong = 0.05, 0.0
  made.checkpoint_every, made.checkpoints_kept = 1, 4
  made.update(changes)
  return made


@pytest.fixture(scope="module")
def run(folder, tmp_path_factory):
  """A finished run of three steps on a mesh."""
  workdir = tmp_path_factory.mktemp("run") / "it"
  train.run(config(folder, steps=3), str(workdir))
  return workdir


@pytest.fixture(scope="module")
def subject(run):
  return subjects.load(str(run))


def record(workdir, step):
  """What a checkpoint says of its leaves, and its size in bytes."""
  place = workdir / "checkpoints" / str(step)
  file = place / "record" / "metadata"
  size = sum(p.stat().st_size for p in place.rglob("*") if p.is_file())
  return json.loads(file.read_text())["body"], size


def test_checkpoints_hold_the_adapters_and_name_the_base(run, folder):
  body, size = record(run, 3)
  assert not any("embedding" in name for name in body["layout"])
  trained = "['policy'].params['adapters']['layers']['q']['lora_a']"
  assert any(name.endswith(trained) for name in body["layout"])
  assert "['embed']['embedding']" in body["metadata"]["base"]
  weights = pathlib.Path(folder, "model.safetensors").stat().st_size
  assert size < weights / 10
  # The reference is the policy after the warm start, and stays.
  start, after = record(run, 0)[0]["checksum"], body["checksum"]
  moved = [name for name in after if start[name] != after[name]]
  assert any("lora_b" in n and "params" in n for n in moved)
  assert not any("reference" in n for n in moved)


def test_it_learns_without_compiling_again(run):
  records = metrics.read_metrics(run)[1:]
  assert [r["compiles"] for r in records[1:]] == [0, 0]
  assert max(r["sampler_gap_max"] for r in records) < 1e-4
  assert max(r["reward"] for r in records) > 0
  assert max(r["grad_norm"] for r in records) > 0.01


def test_a_run_that_was_killed_goes_on_bitwise(run, folder, tmp_path):
  killed = shutil.copytree(run, tmp_path / "killed")
  shutil.rmtree(killed / "checkpoints" / "3")
  train.run(config(folder, steps=3), str(killed), resume=True)
  assert record(killed, 3)[0]["checksum"] == record(run, 3)[0]["checksum"]


def test_another_base_is_refused(run, folder, tmp_path):
  other = shutil.copytree(folder, tmp_path / "other")
  held = models.load(other)
  held.params["final_norm"]["scale"][3] += 1
  shutil.rmtree(other)
  models.export(other, held)
  saved = record(run, 3)[0]["metadata"]
  now = {"base": adapters.checkpoint.checksums(models.load(other).params)}
  with pytest.raises(ValueError, match=r"not the base.*1 of its \d+.*norm"):
    adapters.check_base(saved, now)
  adapters.check_base(saved, saved)


def test_evaluated_on_its_own_task_and_on_others(run, subject, tmp_path):
  assert subject.task.name.startswith("reasoning_gym")
  options = {"k": 2, "num_prompts": 4, "resamples": 100, "temperature": 0.5}
  task = subjects.task("", "", subject)
  binary.run(subject, task, tmp_path / "one", **options)
  mesh = subjects.mesh(["2", "2", "2"])
  spread = subjects.load(str(run), on=mesh)
  base = spread.params["base"]["layers"]["q"]["kernel"]
  assert base.sharding.spec == parallel.spec_for(
    "layers/q/kernel", base.shape, mesh
  )
  binary.run(spread, task, tmp_path / "mesh", mesh=mesh, **options)
  one, many = (
    (tmp_path / name / "transcripts.jsonl").read_text().splitlines()
    for name in ("one", "mesh")
  )
  same = [json.loads(a) == json.loads(b) for a, b in zip(one, many)]
  assert sum(same) >= len(same) - 1  # a near-tie may fall the other way
  samples = pathlib.Path(models.__file__).parent.parent / "environments"
  arguments = {"response_length": 4, "workers": 0, "eval_fraction": 0.5}
  arguments["path"] = str(samples / "samples" / "gsm8k_test.jsonl")
  other = subjects.task("questions", json.dumps(arguments), subject)
  found = binary.run(subject, other, tmp_path / "questions", **options)
  assert found["rows"]["drawn"] == 2 * found["num_prompts"]


def test_exported_and_loaded_by_transformers(run, subject, tmp_path):
  transformers = pytest.importorskip("transformers")
  import torch

  target = export.run(str(run), str(tmp_path / "exported"))
  with pytest.raises(cli.Refused, match="not empty"):
    export.run(str(run), str(target))
  network = transformers.AutoModelForCausalLM.from_pretrained(target)
  tokenizer = transformers.AutoTokenizer.from_pretrained(target)
  talk = [{"role": "user", "content": "1 + 1 = ?"}]
  tokens = tokenizer.apply_chat_template(
    talk, add_generation_prompt=True, tokenize=True
  )["input_ids"]
  assert tokens == list(subject.tokenizer.chat(talk))
  with torch.no_grad():
    theirs = network(torch.tensor([tokens])).logits.numpy()
  ids = jnp.asarray([tokens], jnp.int32)
  at = jnp.arange(len(tokens), dtype=jnp.int32)[None, :]
  hidden, _ = subject.policy.apply(subject.params, ids, at)
  ours = np.asarray(subject.policy.unembed(subject.params, hidden))
  assert np.abs(ours - theirs).max() < 1e-4 * np.abs(theirs).max()
  untrained, _ = subject.policy.apply(subject.params["base"], ids, at)
  assert np.abs(hidden - untrained).max() > 0.1
  # It is a model like any other, and has the same tokens.
  again = models.load(target)
  assert again.tokenizer.stops == subject.tokenizer.stops
  assert (target / "chat_template.jinja").is_file()


@pytest.mark.parametrize("adapted", [False, True])
def test_weights_go_straight_into_their_shards(folder, adapted):
  made = config(folder)
  made.lora.rank = 4 if adapted else 0
  made.lora.base_dtype = "bfloat16"
  mesh = build.mesh(made.mesh)
  dtype = adapters.dtype(made)
  assert dtype == ("bfloat16" if adapted else "float32")
  spread = build.pretrained(made.model, mesh, dtype)
  whole = build.pretrained(made.model, None, dtype)
  task = build.task(made.task, spread)
  lm = adapters.policy(made, build.policy(made.model, task.vocab_size, spread))
  state = build.first_state(
    recipes.uniform(build.sizes(made, task)),
    lm,
    build.optimiser(made),
    build.sizes(made, task),
    jax.random.key(0),
    spread,
    adapted=adapted,
  )
  found = state.frozen["base"] if adapted else state.learners["policy"].params

  def check(leaf, expected, where):
    assert leaf.sharding == where and leaf.dtype == dtype
    np.testing.assert_array_equal(leaf, expected)

  jax.tree.map(check, found, whole.params, parallel.shardings(found, mesh))
  embedding = found["embed"]["embedding"]
  (shape,) = {x.data.shape for x in embedding.addressable_shards}
  assert 4 * np.prod(shape) == embedding.size
  # So does what the optimiser keeps of each.
  learners = state.learners
  if adapted:
    assert sum(x.size for x in jax.tree.leaves(learners)) < embedding.size / 10
    return
  where = parallel.shardings(learners, mesh)
  for leaf, placed in zip(*map(jax.tree.leaves, (learners, where))):
    assert leaf.size < 1000 or leaf.sharding == placed


@pytest.mark.parametrize(
  "changes, said",
  [
    ({"rank": -1}, "lora.rank=-1: must be at least 0"),
    ({"rank": 99}, r"config.lora, .*rank=99: must be in \[1, 16\]"),
    ({"alpha": 0.0}, "alpha=0.0: must be finite and above 0"),
    ({"projections": ("query",)}, "projections are the targets.*query"),
    ({"base_dtype": "int8"}, "dtype='int8': must be one of"),
  ],
)
def test_refused(folder, changes, said):
  made = config(folder)
  made.lora.update(changes)
  with pytest.raises(ValueError, match=said):
    of = build.pretrained(made.model, None, adapters.dtype(made))
    adapters.policy(made, models.policy(of.config))


def test_a_new_model_is_no_base(tmp_path):
  made = quickstart.get_config()
  made.lora.rank = 8
  with pytest.raises(cli.Refused, match='lora.rank=8 with model.pretrained=""'):
    train.run(made, str(tmp_path / "run"))
