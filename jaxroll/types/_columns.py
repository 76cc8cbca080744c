"""Which names may a method take as an argument, and who makes each?"""

# The closed list of names a method may take as an argument, with who makes
# each. The recipe wires methods by these names and nothing else.
COLUMNS = {
  # one entry a prompt of the step
  "stats": "the step: PromptStats before it; [N] of the whole task for select, "
  "[P] of the step's prompts for all others",
  "tally": "the step: evidence of this step so far, [P]",
  "ids": "the step: i32[P], its prompts' rows of PromptStats, -1 empty",
  "counts": "the step: i32[P], rows already allocated to each prompt in it",
  "waiting": "the step: bool[P], prompts whose group already holds carried "
  "rows (needs a replay method in the recipe)",
  "source": "the task: i32[P], source of the step's prompts",
  # one entry a prompt of the task or of a pool
  "pool": "the task: i32[M], ids that may be selected",
  "feature": "the task: f32[N, D], an embedding of every prompt",
  "prompt_entropy": "a forward pass over the pool's prompts: f32[M], mean over "
  "a prompt's tokens of the policy's next-token entropy, nats",
  # one entry a row
  "group": "the rollouts: i32[B], which prompt of the step",
  "index": "the rollouts: i32[B], place within the prompt's group",
  "length": "the rollouts: i32[B], tokens after the context",
  "given_length": "the rollouts: i32[B], given tokens after the context",
  "round": "the rollouts: i32[B], generation round, -1 for carried rows",
  "stopped": "the rollouts: bool[B], ended by a stop rule, not by its limit",
  "valid": "the step: bool[B], generated, scored and not dropped by keep",
  "status": "the verifier: i32[B]",
  "reward": "the verifier, then the recipe's reward chain: f32[B]",
  "adv": "the recipe's advantage chain: f32[B] or f32[B, T]",
  # one entry a token
  "tokens": "the rollouts: i32[B, T]",
  "mask": "the rollouts and keep: bool[B, T], tokens that are trained",
  "entropy": "the sampler: f32[B, T], of the distribution sampled from",
  "behaviour_logp": "the sampler: f32[B, T], on its own support",
  "old_logp": "a scoring pass: f32[B, T], the policy before the update",
  "ref_logp": "a scoring pass: f32[B, T], needs a frozen reference: give "
  "the recipe reference=True",
  "logp": "the learner: f32[B, T], with gradient",
  "anchor": "trust: f32[B, T], the ratio's denominator",
  "low": "trust: f32[B, T], lower bound of the ratio",
  "high": "trust: f32[B, T], upper bound of the ratio",
  "weight": "trust: f32[B, T], importance weight",
}
