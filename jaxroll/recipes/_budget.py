"""How many rows has a prompt of a step, if all have the same?"""

from jaxroll.types import Sizes


def rows_a_prompt(name: str, sizes: Sizes, *, least: int) -> int:
  """floor(rows / prompts), refused where that is too few.

  Args:
    name: of the recipe, for messages.
    sizes: the run's.
    least: the fewest that the recipe works with.

  Returns:
    A number >= least.

  Raises:
    ValueError: where there are fewer.

  Example:
    >>> rows_a_prompt("pairs", Sizes(40, 8, 20, 5, 6), least=2)
    2
  """
  rows = sizes.rows // sizes.prompts
  if rows < least:
    raise ValueError(
      f"{name}: rows={sizes.rows} must be at least {least * sizes.prompts}, "
      f"{least} for each of {sizes.prompts} prompts: raise rows"
    )
  return rows
