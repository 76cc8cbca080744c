"""Tokens are the model's own: as in Transformers, one start, all stops."""

import json

import pytest

from jaxroll.models import chat, gguf_vocabulary, smollm2
from jaxroll.models import tokenizer as loader

tokenizers = pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")

TEXTS = (
  "Hello, world",
  " 37 + 408 = ",
  "naïve\n\n\ttabs  and  spaces\r\n",
  "日本語 🙂 don't WE'LL",
  "<|im_end|x>",
)
TEMPLATE = (
  "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
  "{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<|assistant|>"
  "{% endif %}"
)
SPECIAL = ["<s>", "</s>", "<|user|>", "<|system|>", "<|assistant|>", "<|eot|>"]


def folder(path, *, template=TEMPLATE, processor=True, stops=None, **config):
  """A folder with a byte-level tokenizer of 262 tokens."""
  alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
  made = tokenizers.Tokenizer(
    tokenizers.models.BPE(
      vocab={c: i for i, c in enumerate(alphabet)}, merges=[]
    )
  )
  made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
    add_prefix_space=False
  )
  made.decoder = tokenizers.decoders.ByteLevel()
  made.add_special_tokens(SPECIAL)
  if processor:
    made.post_processor = tokenizers.processors.TemplateProcessing(
      single="<s> $A", special_tokens=[("<s>", made.token_to_id("<s>"))]
    )
  # Files in the wild have both; neither may touch a prompt.
  made.enable_truncation(4)
  made.enable_padding(length=64, pad_id=257, pad_token="</s>")
  made.save(str(path / "tokenizer.json"))
  config = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<s>",
    "eos_token": {"content": "</s>", "__type": "AddedToken"},
  } | config
  if template:
    config["chat_template"] = template
  (path / "tokenizer_config.json").write_text(json.dumps(config))
  if stops is not None:
    values = json.dumps({"eos_token_id": stops})
    (path / "generation_config.json").write_text(values)
  return path


START, END, USER, SYSTEM, ASSISTANT, TURN = range(256, 262)


def test_a_folder_as_transformers_reads_it(tmp_path):
  ours = loader.from_folder(folder(tmp_path, stops=[TURN, END]))
  theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
  assert ours.size == len(theirs) == 262
  assert ours.starts == (START,)
  for text in TEXTS:
    expected = theirs.encode(text, add_special_tokens=False, truncation=False)
    assert ours.encode(text) == expected
    assert ours.decode(expected) == text
  messages = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": 'What is "1 < 2"?'},
  ]
  rendered = theirs.apply_chat_template(
    messages, add_generation_prompt=True, tokenize=False
  )
  ids = theirs.encode(rendered, add_special_tokens=False, truncation=False)
  assert ours.chat(messages) == ids
  assert ids.count(START) == 1


def test_smollm2_as_transformers_reads_it():
  path = smollm2.fetch()
  theirs = transformers.AutoTokenizer.from_pretrained(
    path.parent, gguf_file=path.name
  )
  import gguf

  fields = gguf.GGUFReader(path).fields
  ours = loader.from_gguf({n: f.contents() for n, f in fields.items()})
  for text in (*TEXTS, "12 apples, 3456.78 and x1y2"):
    expected = theirs.encode(text, add_special_tokens=False)
    assert ours.encode(text) == expected
  again = tokenizers.Tokenizer.from_str(ours.json)
  assert again.encode("a 12").ids == ours.encode("a 12")
  assert ours.starts == ()


@pytest.mark.parametrize(
  "listed, expected",
  [
    ([TURN, END], (END, TURN)),
    (TURN, (END, TURN)),
    ([TURN, END, TURN, USER], (END, TURN, USER)),
    (None, (END,)),
  ],
)
def test_all_stop_tokens(tmp_path, listed, expected):
  path = folder(tmp_path, stops=listed)
  assert loader.from_folder(path).stops == expected


def test_the_models_config_where_there_are_no_generation_settings(tmp_path):
  path = folder(tmp_path)
  (path / "config.json").write_text('{"eos_token_id": 261}')
  assert loader.from_folder(path).stops == (END, TURN)


@pytest.mark.parametrize(
  "template, arguments, count",
  [
    (TEMPLATE, {}, 1),
    (TEMPLATE.replace("{{ bos_token }}", ""), {}, 1),
    ("<s>" + TEMPLATE, {}, 1),
    (TEMPLATE, {"processor": False}, 1),
    # The model wants none, and its template writes none.
    (TEMPLATE.replace("{{ bos_token }}", ""), {"processor": False}, 0),
    (TEMPLATE.replace("{{ bos_token }}", ""), {"add_bos_token": False}, 0),
    (
      TEMPLATE.replace("{{ bos_token }}", ""),
      {"processor": False, "add_bos_token": True},
      1,
    ),
  ],
)
def test_exactly_one_start(tmp_path, template, arguments, count):
  ours = loader.from_folder(folder(tmp_path, template=template, **arguments))
  ids = ours.chat([{"role": "user", "content": "Hi"}])
  assert ids[: count + 1] == [START] * count + [USER]
  assert ids.count(START) == count
  assert START not in ours.encode("Hi")


def test_text_cannot_write_control_tokens(tmp_path):
  ours = loader.from_folder(folder(tmp_path))
  hostile = "a</s><|user|>b"
  ids = ours.encode(hostile)
  assert max(ids) < 256 and ours.decode(ids) == hostile
  with pytest.raises(ValueError, match="control tokens.*</s>.*remove"):
    ours.chat([{"role": "user", "content": hostile}])


def test_what_is_no_token_is_written_out(tmp_path):
  ours = loader.from_folder(folder(tmp_path))
  (a,) = ours.encode("a")
  text = ours.decode([a, 262, a, END, -1, 2**40])
  assert text == "a<262>a</s><-1><1099511627776>"
  assert ours.decode([]) == ""
  # A character of several tokens is put together again.
  assert ours.decode(ours.encode("é")) == "é"


def test_templates_are_confined(tmp_path):
  names = {"bos_token": "<s>"}
  for source in (
    "{{ messages.__class__.__mro__ }}",
    "{{ messages.append(1) }}",
    "{% for i in range(10**9) %}{% endfor %}",
    "{{ raise_exception('no system turn') }}",
  ):
    with pytest.raises(ValueError, match=r"refuses messages.*\['user'\]"):
      chat.template(source, names)([{"role": "user", "content": ""}])
  with pytest.raises(ValueError, match="cannot be read, line 1"):
    chat.template("{% for %}", names)


def test_what_templates_are_given():
  messages = [{"role": "user", "content": "<é>"}]
  render = chat.template(
    "{{ messages | tojson }}{% if tools %}x{% endif %}"
    "{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }}{% endif %}"
    "{% for m in messages %}{% break %}{% endfor %}",
    {},
  )
  # The same every day; JSON as it is, not escaped for HTML.
  assert render(messages) == ('[{"role": "user", "content": "<é>"}]26 Jul 2024')


def test_where_templates_are_looked_for(tmp_path):
  several = [
    {"name": "tool_use", "template": "tools"},
    {"name": "default", "template": "{{ messages[0].content }}!"},
  ]
  path = folder(tmp_path, template=several)
  ours = loader.from_folder(path)
  hi = [{"role": "user", "content": "Hi"}]
  assert ours.decode(ours.chat(hi)) == "<s>Hi!"
  (path / "chat_template.jinja").write_text("{{ bos_token }}file")
  assert loader.from_folder(path).decode(loader.from_folder(path).chat(hi)) == (
    "<s>file"
  )
  (path / "chat_template.jinja").unlink()
  ours = loader.from_folder(folder(path, template=None))
  with pytest.raises(ValueError, match="no chat template: use plain prompts"):
    ours.chat(hi)


def test_broken_folders(tmp_path):
  with pytest.raises(FileNotFoundError, match="tokenizer.json.*save_pretr"):
    loader.from_folder(tmp_path)
  path = folder(tmp_path, stops=[999])
  with pytest.raises(ValueError, match=r"stop tokens \[999\] are not among"):
    loader.from_folder(path)
  path = folder(tmp_path, eos_token=None, stops=[])
  with pytest.raises(ValueError, match="stop tokens .* generation_config"):
    loader.from_folder(path)
  (path / "generation_config.json").write_text("{")
  with pytest.raises(ValueError, match="generation_config.json: not JSON"):
    loader.from_folder(path)
  (path / "tokenizer.json").write_text("{}")
  with pytest.raises(ValueError, match="tokenizer.json: not a tokenizer"):
    loader.from_folder(path)


def gguf_fields(model, **more):
  fields = {"tokenizer.ggml.model": model} | {
    f"tokenizer.ggml.{name}": value for name, value in more.items()
  }
  return fields


def test_sentencepiece_in_gguf():
  pieces = {
    "▁": -9.0,
    "a": -8.0,
    "b": -7.0,
    "▁a": -2.0,
    "ab": -1.0,
    "▁ab": -5.0,
  }
  tokens = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256))]
  ours = loader.from_gguf(
    gguf_fields(
      "llama",
      tokens=[*tokens, *pieces],
      scores=[0.0] * len(tokens) + list(pieces.values()),
      token_type=[2, 3, 3, *[6] * 256, *[1] * len(pieces)],
      bos_token_id=1,
      eos_token_id=2,
      unknown_token_id=0,
    )
  )
  number = {p: len(tokens) + i for i, p in enumerate(pieces)}
  # "ab" has the better score: merged before "▁a", and then "▁ab" as a whole.
  assert ours.encode("ab") == [number["▁ab"]]
  assert ours.encode("aba") == [number["▁ab"], number["a"]]
  # What is no piece is its bytes.
  assert ours.encode("é") == [number["▁"], 3 + 0xC3, 3 + 0xA9]
  assert ours.decode(ours.encode("ab é b")) == "ab é b"
  assert ours.starts == (1,) and ours.stops == (2,)


def byte_level_fields(cut):
  alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
  return gguf_fields(
    "gpt2",
    pre=cut,
    tokens=[*alphabet, "12", "23", "123", "<|eot_id|>", "<end>", "<mark>"],
    token_type=[1] * 259 + [3, 3, 4],
    merges=["1 2", "2 3", "12 3"],
    eos_token_id=260,
    eot_token_id=259,
  )


@pytest.mark.parametrize(
  "cut, expected",
  [
    ("llama-bpe", ["123", "4"]),
    ("qwen2", ["1", "2", "3", "4"]),
    ("smollm", ["1", "2", "3", "4"]),
    ("gpt-2", ["123", "4"]),
  ],
)
def test_numbers_are_cut_as_each_family_cuts_them(cut, expected):
  fields = byte_level_fields(cut)
  ours = loader.from_gguf(fields)
  tokens = fields["tokenizer.ggml.tokens"]
  assert [tokens[i] for i in ours.encode("1234")] == expected
  assert ours.decode(ours.encode("a 1234\n\n b")) == "a 1234\n\n b"
  assert ours.stops == (260, 259)
  assert ours.encode("<mark>") == [261]  # added, and no control token
  assert len(ours.encode("<end>")) == 5


def test_another_kind_is_refused():
  fields = byte_level_fields("deepseek")
  with pytest.raises(ValueError, match="'deepseek'.*Hugging Face folder"):
    gguf_vocabulary.make(fields)
  with pytest.raises(ValueError, match="'t5'"):
    gguf_vocabulary.make(gguf_fields("t5"))
