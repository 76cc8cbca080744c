"""Which flat expressions reach which target? (Exhaustively, on the host.)

    a o1 b o2 c ...   with o in + - * and * binding tighter

over all orders of the numbers and all signs: K! 3^(K-1) expressions of K
numbers, 648 for four.
"""

import itertools
import math

import numpy as np

LARGEST_TARGET = 999
_MULTISETS = 2000  # searched at most, unless more problems are asked for


def problems(given: int, largest: int, num: int, *, keep: int, rng):
  """Distinct (multiset of numbers, target) pairs that have a solution.

  Args:
    given: how many numbers, K.
    largest: numbers are drawn from 1 ... largest.
    num: most problems returned; fewer where there are fewer.
    keep: most solutions returned of each.
    rng: numpy generator.

  Returns:
    List of (numbers in random order, target in 1 ... 999, expressions).
  """
  total = math.comb(largest + given - 1, given)
  searched = min(total, max(_MULTISETS, num))
  ranks = set(rng.choice(total, searched, replace=False).tolist())
  every = itertools.combinations_with_replacement(range(1, largest + 1), given)
  multisets = np.array([m for rank, m in enumerate(every) if rank in ranks])
  orders = np.array(list(itertools.permutations(range(given))))
  signs = np.array(list(itertools.product("+-*", repeat=given - 1)))
  # values[m, o, s]: multiset m in order o, joined by signs s.
  values = evaluate(multisets[:, orders][:, :, None], signs[None, None])
  able = (values >= 1) & (values <= LARGEST_TARGET)
  base = LARGEST_TARGET + 1
  pairs = np.unique(np.nonzero(able)[0] * base + values[able])
  made = []
  for pair in rng.permutation(pairs)[:num].tolist():
    which, target = divmod(pair, base)
    row = multisets[which]
    texts = {
      write(row[orders[o]], signs[s])
      for o, s in np.argwhere(values[which] == target)
    }
    texts = rng.permutation(sorted(texts))[:keep].tolist()
    made.append((rng.permutation(row).tolist(), target, texts))
  return made


def evaluate(operands, signs):
  """Values of many expressions.

  Args:
    operands: i64[..., K].
    signs: array of "+", "-", "*" [..., K-1].

  Returns:
    i64[...].

  Example:
    >>> int(evaluate(np.array([5, 3, 2]), np.array(["-", "*"])))
    -1
  """
  total, term = 0, operands[..., 0]
  for i in range(signs.shape[-1]):
    sign, operand = signs[..., i], operands[..., i + 1]
    times = sign == "*"
    total = np.where(times, total, total + term)
    term = np.where(times, term, np.where(sign == "-", -1, 1)) * operand
  return total + term


def write(operands, signs) -> str:
  """The expression as text.

  Example:
    >>> write([5, 3, 2], ["-", "*"])
    '5-3*2'
  """
  return str(operands[0]) + "".join(
    f"{sign}{operand}" for sign, operand in zip(signs, operands[1:])
  )
