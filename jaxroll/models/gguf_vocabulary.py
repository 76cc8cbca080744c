"""How does a GGUF file say what its tokens are?

Two kinds: byte-level byte-pair encoding ("gpt2": GPT-2, Llama 3, Qwen,
SmolLM2), whose merges are listed and whose way of cutting text into words has
a name; and SentencePiece's ("llama": Llama 2, Mistral), whose merges follow
from the pieces' scores: of all neighbours, the pair that makes the piece of
highest score is merged first (Kudo and Richardson 2018, 1808.06226).
"""

from collections.abc import Mapping
from typing import Any

# Types of tokens: stands for no text; added by hand; one byte.
_CONTROL, _USER, _BYTE = 3, 4, 6

_WORDS = (
  r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|NUMBER|"
  r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# How a text is cut into words, by the name in the file.
_CUTS = {
  "llama-bpe": _WORDS.replace("NUMBER", r"\p{N}{1,3}"),
  "qwen2": _WORDS.replace("NUMBER", r"\p{N}"),
}
_KNOWN = ("gpt-2", "smollm", *_CUTS)


def make(fields: Mapping[str, Any]):
  """The `tokenizers.Tokenizer` of a file.

  Args:
    fields: its metadata by name.

  Returns:
    `tokenizers.Tokenizer`, without a post-processor.

  Raises:
    ValueError: for another kind of tokenizer, or another way to cut words.
  """
  kind = fields["tokenizer.ggml.model"]
  cut = fields.get("tokenizer.ggml.pre", "default")
  if kind == "gpt2" and cut in _KNOWN:
    made = _byte_level(fields, cut)
  elif kind == "llama":
    made = _sentencepiece(fields)
  else:
    raise ValueError(
      f"tokenizer {(kind, cut)}: must be ('llama', ...) or ('gpt2', one of "
      f"{_KNOWN}); load the model's Hugging Face folder instead"
    )
  import tokenizers

  tokens = fields["tokenizer.ggml.tokens"]
  types = fields["tokenizer.ggml.token_type"]
  made.add_special_tokens([t for t, k in zip(tokens, types) if k == _CONTROL])
  made.add_tokens(
    [
      tokenizers.AddedToken(t, normalized=False)
      for t, k in zip(tokens, types)
      if k == _USER
    ]
  )
  return made


def _byte_level(fields, cut):
  import tokenizers

  before = tokenizers.pre_tokenizers
  tokens = fields["tokenizer.ggml.tokens"]
  merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"]]
  made = tokenizers.Tokenizer(
    tokenizers.models.BPE(
      vocab={token: number for number, token in enumerate(tokens)},
      merges=merges,
      ignore_merges=cut == "llama-bpe",
    )
  )
  if cut == "qwen2":
    made.normalizer = tokenizers.normalizers.NFC()
  steps = []
  if cut == "smollm":
    steps.append(before.Digits(individual_digits=True))
  if cut in _CUTS:
    steps.append(before.Split(tokenizers.Regex(_CUTS[cut]), "isolated"))
  steps.append(
    before.ByteLevel(add_prefix_space=False, use_regex=cut not in _CUTS)
  )
  made.pre_tokenizer = before.Sequence(steps)
  made.decoder = tokenizers.decoders.ByteLevel()
  return made


def _sentencepiece(fields):
  import tokenizers

  tokens = fields["tokenizer.ggml.tokens"]
  types = fields["tokenizer.ggml.token_type"]
  scores = fields["tokenizer.ggml.scores"]
  number = {token: n for n, token in enumerate(tokens)}
  merges = []
  for token, kind, score in zip(tokens, types, scores):
    if kind in (_CONTROL, _USER, _BYTE):
      continue
    pairs = [(token[:i], token[i:]) for i in range(1, len(token))]
    pairs = [p for p in pairs if p[0] in number and p[1] in number]
    pairs.sort(key=lambda p: (number[p[0]], number[p[1]]))
    merges += [(-score, pair) for pair in pairs]
  merges.sort(key=lambda m: m[0])
  unknown = tokens[fields.get("tokenizer.ggml.unknown_token_id", 0)]
  made = tokenizers.Tokenizer(
    tokenizers.models.BPE(
      vocab=number,
      merges=[pair for _, pair in merges],
      unk_token=unknown,
      fuse_unk=True,
      byte_fallback=True,
    )
  )
  prefix = fields.get("tokenizer.ggml.add_space_prefix", True)
  normal = tokenizers.normalizers
  steps = [normal.Prepend("▁")] if prefix else []
  made.normalizer = normal.Sequence([*steps, normal.Replace(" ", "▁")])
  after = tokenizers.decoders
  made.decoder = after.Sequence(
    [
      after.Replace("▁", " "),
      after.ByteFallback(),
      after.Fuse(),
      *([after.Strip(" ", 1, 0)] if prefix else []),
    ]
  )
  return made
