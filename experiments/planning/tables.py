"""How does a plan look to a reader? Tables of its JSON."""

_GIB = 2**30
_KERNEL_BYTES = ("argument", "temporary")


def text(plan: dict) -> str:
  """A plan as text.

  Args:
    plan: as `experiments.plan` writes it.

  Returns:
    Lines: a block a mesh, after a sweep all of them in order.
  """
  head = (
    f"{plan['model']} ({plan['parameters'] / 1e6:.4g} M parameters, "
    f"{plan['dtype']}) on {plan['topology']}: {plan['devices']} devices of "
    f"{plan['chip']['capacity'] / _GIB:.1f} GiB, "
    f"{plan['chip']['flops'] / 1e12:.3g} TFLOP/s, "
    f"{plan['chip']['hbm'] / 1e9:.4g} GB/s memory, "
    f"{plan['chip']['ici'] / 1e9:.4g} GB/s interconnect"
    + (" (measured here)" if plan["measured"] else "")
  )
  lines = [head]
  if plan.get("pruned"):
    lines.append(
      "not compiled, too large or a query head split, by arithmetic: "
      + ", ".join(plan["pruned"])
    )
  if plan.get("left"):
    lines.append("not compiled, estimated slower: " + ", ".join(plan["left"]))
  for report in plan["reports"]:
    lines += ["", *_one(report)]
  if plan.get("best"):
    lines += ["", f"best of those compiled: --mesh={plan['best']}"]
  return "\n".join(lines)


def _one(report):
  work = report["work"]
  fits = "fits" if report["fits"] else "DOES NOT FIT"
  yield (
    f"--mesh={report['name']}: {fits}. {work['prompts']} prompts, "
    f"{work['rows']} rows of {work['prompt_length']} + "
    f"{work['response_length']} tokens, {work['slots']} slots, "
    f"{work['micro_rows']} rows a micro-batch"
  )
  for name, kinds in report["memory"].items():
    parts = ", ".join(
      f"{kind.replace('_', ' ')} {size / _GIB:.2f}"
      for kind, size in kinds.items()
      if kind != "total"
    )
    refused = report["compile"][name].get("refused")
    refused = f" (the compiler refuses: {refused})" if refused else ""
    yield (
      f"  {name:<8}{kinds['total'] / _GIB:>8.2f} GiB a device{refused}: {parts}"
    )
  if report["functions"]:
    columns = ("times", "GFLOP", "GB moved", "GB sent", "ms compute")
    columns += ("ms memory", "ms links", "bound")
    yield ("  {:<14}" + "{:>12}" * 8).format("one run of", *columns)
  for name, row in report["functions"].items():
    times = row["times"]
    cells = [f"{times}", f"{row['flops'] / 1e9:.2f}"]
    cells += [f"{row[key] / 1e9:.3f}" for key in ("hbm_bytes", "sent_bytes")]
    cells += [
      f"{1e3 * row[f'seconds_{key}'] / times:.3f}"
      for key in ("compute", "hbm", "interconnect")
    ]
    yield ("  {:<14}" + "{:>12}" * 8).format(name, *cells, row["bound"])
  for name, row in report["functions"].items():
    for c in row["collectives"]:
      weights = ", OF WEIGHTS" if c["of_weights"] else ""
      yield (
        f"  {name}: {c['count']} {c['kind']} over {c['axes'] or 'one device'}"
        f", {c['bytes'] / 1e6:.3f} MB{weights}"
      )
  token = report["functions"].get("decode_token")
  if token:
    sent = sum(c["bytes"] for c in token["collectives"])
    gathered = any(c["of_weights"] for c in token["collectives"])
    yield (
      f"  a token of {token['slots']} slots a shard joins {sent / 1e6:.3f} MB "
      "in collectives; weights are "
      + ("GATHERED AT EVERY TOKEN" if gathered else "not gathered inside")
    )
  bounds = report["bounds"]
  for name, words in (
    ("decode_tokens_per_s", "at most {:.4g} tokens/s while decoding"),
    ("step_tokens_per_s", "at most {:.4g} tokens/s of whole steps"),
    ("step_seconds", "at least {:.4g} s a step"),
  ):
    if name in bounds:
      yield "  " + words.format(bounds[name])
  for name, row in report["compile"].items():
    if "seconds" in row:
      xla = ", ".join(f"{k} {v:.4g}" for k, v in row["xla_loops_once"].items())
      yield (
        f"  {name}: compiled in {row['seconds']:.0f} s; XLA itself, loops "
        f"counted once: {xla}"
      )
  yield from _kernels(report.get("kernels", ()))
  yield from (f"  change: {line}" for line in report["advice"])


def _kernels(records):
  """What kernels save of one layer's decode step and of one micro-batch."""
  if not records:
    return
  head, cell = "  {:<25}{:<9}", "{:>12}"
  line = head + cell * 8
  columns = ("arguments MB", "temp. MB", "GB moved", "GFLOP", "least ms")
  columns += ("times", "saves MB", "saves ms")
  yield line.format("a kernel, on one chip", "by", *columns)
  for row in records:
    names = row["name"], row["implementation"]
    if "refused" in row:
      yield head.format(*names) + f"the compiler refuses: {row['refused']}"
      continue
    cells = [f"{row[f'{key}_bytes'] / 1e6:.2f}" for key in _KERNEL_BYTES]
    cells += [f"{row['hbm_bytes'] / 1e9:.4f}", f"{row['flops'] / 1e9:.2f}"]
    cells += [f"{1e3 * row['seconds']:.4f}", f"{row['times']}"]
    for key, unit in (("saved_bytes", 1e-6), ("saved_seconds", 1e3)):
      cells.append(f"{unit * row[key]:.2f}" if key in row else "")
    yield line.format(*names, *cells)
  if all(row["implementation"] != "pallas" for row in records):
    yield "  pallas: left out, it is compiled for TPUs alone"
