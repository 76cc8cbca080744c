"""What does a model read of a conversation? Its own chat template, rendered.

A template comes with the model's files and is a program: jinja2 runs it in its
immutable sandbox, where it reaches neither files nor Python's objects. Today's
date is not among what it sees, so that a prompt has the same tokens every day.
"""

import datetime
import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

_DATE = datetime.datetime(2024, 7, 26)  # the one that Llama's templates name


def template(source: str, names: Mapping[str, str]) -> Callable:
  """A chat template as a function.

  Args:
    source: its text.
    names: texts of special tokens by their name (bos_token, eos_token ...).

  Returns:
    (messages) -> text up to where the assistant's answer starts.

  Raises:
    ImportError: without `jinja2`.
    ValueError: for a template that jinja2 cannot read; from the function, for
      messages that the template refuses.

  Example:
    >>> render = template("{{ bos_token }}{{ messages[0].content }}:",
    ...                   {"bos_token": "<s>"})
    >>> render([{"role": "user", "content": "Hi"}])
    '<s>Hi:'
  """
  try:
    import jinja2
    import jinja2.sandbox
  except ImportError as error:
    raise ImportError(
      "a chat template needs jinja2: pip install 'jaxroll[lm]'"
    ) from error

  def fail(message):
    raise jinja2.TemplateError(message)

  environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
  )
  environment.filters["tojson"] = _json
  environment.globals["raise_exception"] = fail
  environment.globals["strftime_now"] = _DATE.strftime
  try:
    compiled = environment.from_string(source)
  except jinja2.TemplateError as error:
    raise ValueError(
      f"the chat template cannot be read, line {error.lineno}: {error}: give "
      "another chat_template.jinja"
    ) from error

  def render(messages):
    try:
      return compiled.render(
        **{"tools": None, "documents": None, **names},
        messages=[dict(message) for message in messages],
        add_generation_prompt=True,
      )
    except Exception as error:  # A template is a program: it may raise any.
      raise ValueError(
        f"the chat template refuses messages of the roles "
        f"{[m.get('role') for m in messages]}: {error}"
      ) from error

  return render


def source(folder: pathlib.Path, config: Mapping[str, Any]) -> str | None:
  """The template of a Hugging Face folder, None where there is none.

  Args:
    folder: `chat_template.jinja` in it is read first.
    config: what its `tokenizer_config.json` holds; of several templates the
      one named "default" is taken.

  Returns:
    The template's text.
  """
  path = folder / "chat_template.jinja"
  if path.is_file():
    return path.read_text(encoding="utf-8")
  found = config.get("chat_template")
  if isinstance(found, list):
    found = {t["name"]: t["template"] for t in found}.get("default")
  return found


def _json(value, ensure_ascii=False, indent=None, separators=None, **options):
  """JSON as Transformers writes it: no escapes for HTML."""
  return json.dumps(
    value,
    ensure_ascii=ensure_ascii,
    indent=indent,
    separators=separators,
    sort_keys=bool(options.get("sort_keys")),
  )
