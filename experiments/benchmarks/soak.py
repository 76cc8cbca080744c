"""Suite: does a run keep memory that it should let go of?

soak   steps of `step_ragged`; `growth_mb` is what the process holds more
       after the last of them than after the first tenth, `compiles` what was
       compiled after the first step
"""

import statistics
import time

from experiments.benchmarks import shapes, step, timing
from jaxroll import metrics


def soak(of: shapes.Shapes, size: str, steps: int) -> list:
  """The row of many steps.

  Args:
    of: the shapes.
    size: of the row.
    steps: at least 10.

  Returns:
    A list of one `timing.Row`.

  Raises:
    ValueError: for too few steps.
  """
  if steps < 10:
    raise ValueError(f"steps={steps}: must be at least 10")
  timing.reset_peak()
  slots = of.slots or max(1, of.rows // 2)
  runner = step.Runner(of, ragged=True, slots=slots)
  counter, seconds, compiled, tokens = metrics.CompileCounter(), [], [], []
  early = 0.0
  for number in range(steps):
    mark, began = counter.count, time.perf_counter()
    output = runner.call()
    seconds.append(time.perf_counter() - began)
    compiled.append(counter.since(mark))
    tokens.append(int(output.rollouts.length.sum()))
    if number + 1 == steps // 10:
      early = timing.resident_mb()
  late = timing.resident_mb()
  counter.close()
  median = statistics.median(seconds[1:])
  return [
    timing.Row(
      name="soak",
      size=size,
      median_s=median,
      min_s=min(seconds[1:]),
      max_s=max(seconds[1:]),
      compile_s=seconds[0] - median,
      tokens=statistics.median(tokens),
      tokens_per_s=sum(tokens[1:]) / sum(seconds[1:]),
      peak_memory_mb=timing.peak_memory_mb(),
      slots=slots,
      compiles=sum(compiled[1:]),
      growth_mb=late - early,
    )
  ]
